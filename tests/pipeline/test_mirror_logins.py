"""The mirror into an instance that is only reached with TLS and a login."""

from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.mirror.planning.address import Address, parse_client_config
from tests.integration.broker.fake_control import wait_until
from tests.integration.stack import running_stack
from tests.pipeline.mirroring import Mirrors, Side

CERTIFICATES: Final = Path(__file__).resolve().parents[1] / "certificates"
AUTHORITY: Final = CERTIFICATES / "authority.pem"
PASSWORD: Final = "a password=of my own"
FILE: Final = f"""
# as docs/mirror.md has it
security.protocol=SASL_SSL
ssl.ca.location={AUTHORITY}
sasl.mechanism=SCRAM-SHA-512
sasl.username=app
sasl.password=%s
"""


def values(config: dict[str, Any], topic: str) -> list[bytes]:
    """Everything committed of partition 0."""
    consumer = Consumer(config | {"group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(20)) is not None:
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            break
        found.append(message.value())
    consumer.close()
    return found


def test_a_target_is_reached_with_tls_and_a_login(tmp_path: Path, spark: SparkSession) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_text((CERTIFICATES / "gateway.pem").read_text() + AUTHORITY.read_text())
    key.write_text((CERTIFICATES / "gateway.key").read_text())
    key.chmod(0o600)
    mirrors = Mirrors(spark)
    files = ("--tls-cert", str(certificate), "--tls-key", str(key))
    with running_stack(tmp_path / "data", *files) as stack:
        west = Side(stack, "open")
        east = Side(stack, "safe", security_protocols=["sasl_ssl"])
        users = f"instances/{east.instance['id']}/users"
        stack.api("POST", users, {"name": "app", "password": PASSWORD})
        wait_until(lambda: stack.api("GET", users)["items"][0]["applied"])
        west.create("orders")
        west.produce("orders", 50)

        config = parse_client_config(FILE % PASSWORD, "target.properties")
        there = Address(east.bootstrap, config)
        mirrors.run(west, east, "orders", rename="same", target_address=there)
        everything = {"bootstrap.servers": east.bootstrap, **config}
        assert values(everything, "orders") == [b"value %d" % number for number in range(50)]

        wrong = Address(east.bootstrap, config | {"sasl.password": "another"})
        with pytest.raises(PipelineError, match=r"look at the login of --source-config or --target-config"):
            mirrors.run(west, east, "orders", rename="same", target_address=wrong)
        assert "another" not in "".join(mirrors.said)
