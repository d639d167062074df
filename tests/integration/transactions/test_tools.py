"""`portico txn` against a broker whose transaction log was lost."""

import contextlib
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ctl.errors import CommandError
from ctl.main import command_line
from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.transactions.clients import TIMEOUT_S, producer, read, write


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path) as running:
        admin = AdminClient({"bootstrap.servers": running.address})
        for future in admin.create_topics([NewTopic("orders", 1, 1)]).values():
            future.result(TIMEOUT_S)
        yield running


def _portico(broker: BrokerProcess, *arguments: str, code: int = 0) -> str:
    """What the command prints, or the sentence it fails with."""
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            outcome = (
                command_line("txn")(["txn", *arguments, "--bootstrap", broker.address], standalone_mode=False)
                or 0
            )
    except CommandError as error:
        outcome, said = error.code, error.sentence
    else:
        said = output.getvalue()
    assert outcome == code, said
    return said


def _json(broker: BrokerProcess, *arguments: str, code: int = 0) -> Any:
    return json.loads(_portico(broker, *arguments, "--json", code=code))


def test_a_transaction_that_nobody_will_end_is_found_and_aborted(broker: BrokerProcess) -> None:
    config = {"bootstrap.servers": broker.address}
    lost = producer(config, "lost")
    lost.begin_transaction()
    lost.produce("orders", b"held back")
    lost.flush(TIMEOUT_S)
    (listed,) = _json(broker, "list", "--state", "Ongoing")
    assert (listed["transactional_id"], listed["coordinator_id"]) == ("lost", 1)
    described = _json(broker, "describe", "lost")
    assert (described["state"], described["partitions"]) == ("Ongoing", ["orders-0"])
    assert "orders-0" in _portico(broker, "describe", "lost")
    assert _portico(broker, "find-hanging").strip() == "No transaction hangs."

    broker.kill()
    for each in (broker.data_dir / "logs").glob("__transaction_state-*"):
        shutil.rmtree(each)
    broker.start()
    write(producer(config, "next"), "orders", ["kept"], commit=True)
    assert read(config, "orders", 1, within_s=0.5) == []
    (hanging,) = _json(broker, "find-hanging", code=1)
    assert (hanging["topic"], hanging["partition"], hanging["start_offset"]) == ("orders", 0, 0)
    assert hanging["reason"] == "no coordinator knows its producer"
    assert "orders" in _portico(broker, "find-hanging", "--topic", "orders", code=1)

    where = ("--topic", "orders", "--partition", "0", "--start-offset")
    assert "no transaction that began at offset 7" in _portico(broker, "abort", *where, "7", code=1)
    assert "aborted" in _portico(broker, "abort", *where, "0")
    assert read(config, "orders", 1) == ["kept"]
    assert _json(broker, "find-hanging") == []


def test_what_does_not_exist_is_said_in_a_sentence(broker: BrokerProcess) -> None:
    assert "TRANSACTIONAL_ID_NOT_FOUND" in _portico(broker, "describe", "never", code=1)
    assert "there is no state Odd" in _portico(broker, "list", "--state", "Odd", code=1)
    assert _portico(broker, "list").strip() == "No transactional id is known."
    assert "orders-9" in _portico(
        broker, "abort", "--topic", "orders", "--partition", "9", "--start-offset", "0", code=1
    )
