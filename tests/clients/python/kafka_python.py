"""kafka-python. Its optional codecs lie where the launcher puts what old clients need."""

import sys
import time
from typing import Any

sys.path.append(f"{sys.prefix}/old-clients")  # behind the newer client

from kafka import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.clients.python.program import Step, run, script, value

_TIMEOUT_S = 30.0
_TIMEOUT_MS = 30_000
ASKED = script()


class Token(AbstractTokenProvider):
    """The one that is given."""

    def token(self) -> str:
        return str(ASKED["connection"]["sasl"]["token"])


def settings() -> dict[str, Any]:
    """What every client of this script is made with."""
    connection = ASKED["connection"]
    tls, sasl = connection["tls"], connection["sasl"]
    made: dict[str, Any] = {
        "bootstrap_servers": connection["bootstrap"],
        "security_protocol": ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT"),
    }
    if tls:
        made["ssl_cafile"] = tls["ca"]
        if tls["certificate"]:
            made |= {"ssl_certfile": tls["certificate"], "ssl_keyfile": tls["key"]}
    if sasl:
        made["sasl_mechanism"] = sasl["mechanism"]
        if sasl["mechanism"] == "OAUTHBEARER":
            made["sasl_oauth_token_provider"] = Token()
        else:
            made |= {"sasl_plain_username": sasl["user"], "sasl_plain_password": sasl["password"]}
    return made


def create(step: Step) -> None:
    admin = KafkaAdminClient(**settings())
    topic = NewTopic(step["topic"], step["partitions"], -1, topic_configs=step["configs"])
    admin.create_topics([topic], timeout_ms=_TIMEOUT_MS)


def describe(step: Step) -> dict[str, int]:
    (told,) = KafkaAdminClient(**settings()).describe_topics([step["topic"]])
    return {"partitions": len(told["partitions"])}


def _resource(step: Step, configs: Any) -> Any:
    return ConfigResource(ConfigResourceType.TOPIC, step["topic"], configs)


def describe_configs(step: Step) -> dict[str, str]:
    told = KafkaAdminClient(**settings()).describe_configs(
        [_resource(step, step["names"])], config_filter="all"
    )
    configs = told["topic"][step["topic"]]
    return {
        name: configs[name]["config_value"] if "config_value" in configs[name] else configs[name]["value"]
        for name in step["names"]
    }


def alter_configs(step: Step) -> None:
    KafkaAdminClient(**settings()).alter_configs([_resource(step, step["configs"])])


def delete(step: Step) -> None:
    KafkaAdminClient(**settings()).delete_topics([step["topic"]], timeout_ms=_TIMEOUT_MS)


def produce(step: Step, transactional_id: str | None = None) -> None:
    producer = KafkaProducer(
        **settings(),
        compression_type=None if step["codec"] == "none" else step["codec"],
        linger_ms=100,
        transactional_id=transactional_id,
    )
    try:
        if transactional_id:
            producer.init_transactions()
            producer.begin_transaction()
        sent = [
            producer.send(
                step["topic"],
                value(step, number).encode(),
                key=f"k{number}".encode(),
                partition=number % step["partitions"],
                headers=[("codec", step["codec"].encode())],
            )
            for number in range(step["count"])
        ]
        for future in sent:
            future.get(_TIMEOUT_S)
        if transactional_id:
            (producer.commit_transaction if step["end"] == "commit" else producer.abort_transaction)()
    finally:
        producer.close(10)


def transaction(step: Step) -> None:
    produce(step, step["transactional_id"])


def _taken(consumer: KafkaConsumer, step: Step) -> list[list[Any]]:
    records: list[list[Any]] = []
    deadline = time.monotonic() + _TIMEOUT_S
    while len(records) < step["count"]:
        assert time.monotonic() < deadline, f"{len(records)} records came within {_TIMEOUT_S} s"
        for batch in consumer.poll(200, max_records=step["count"] - len(records)).values():
            for one in batch:
                headers = dict(one.headers)
                records.append(
                    [
                        *(one.partition, one.offset, one.key.decode(), one.value.decode()),
                        headers.get("codec", b"").decode(),
                    ]
                )
    return records


def consume(step: Step) -> dict[str, Any]:
    consumer = KafkaConsumer(
        step["topic"],
        **settings(),
        group_id=step["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    try:
        records = _taken(consumer, step)
        ends = {partition: offset + 1 for partition, offset, *_ in records}
        consumer.commit(
            {TopicPartition(step["topic"], one): OffsetAndMetadata(end, "", -1) for one, end in ends.items()}
        )
    finally:
        consumer.close()
    return {"records": records}


def read(step: Step) -> dict[str, Any]:
    consumer = KafkaConsumer(**settings(), isolation_level=step["isolation"], auto_offset_reset="earliest")
    consumer.assign([TopicPartition(step["topic"], one) for one in range(step["partitions"])])
    try:
        return {"records": _taken(consumer, step)}
    finally:
        consumer.close()


if __name__ == "__main__":
    assert issubclass(KafkaError, Exception)
    steps = (create, describe, describe_configs, alter_configs, delete, produce, transaction, consume, read)
    run({one.__name__: one for one in steps}, ASKED)
