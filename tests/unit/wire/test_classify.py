"""Every textual field of every API has a class, and the committed table says which."""

import json
from pathlib import Path

import kio
import pytest

import wire
from wire import classify
from wire.classification import classification
from wire.classify import FieldClass, UnclassifiedField, WrongKioVersion, check_kio_version
from wire.schema import Field, MessageKind


def test_the_committed_table_is_what_the_rules_say_of_all_of_kio() -> None:
    committed = json.loads((Path(wire.__file__).parent / "classification.json").read_text())
    assert classification() == committed, "run: python -m wire.classification > wire/classification.json"


def test_an_unknown_field_is_an_error() -> None:
    field = Field("nickname", "string", str, False, False, None)
    with pytest.raises(UnclassifiedField, match=r"metadata\.request\.nickname"):
        classify.classify(MessageKind("metadata", False), ".nickname", field)


def test_every_rule_is_used() -> None:
    table = json.loads((Path(wire.__file__).parent / "classification.json").read_text())["fields"]
    paths = {f"{message}{path}" for message, rows in table.items() for path in rows}
    assert set(classify._BY_PATH) <= paths
    names = {path.rstrip("[]").rsplit(".", 1)[1] for path in paths}
    assert set(classify._BY_NAME) <= names
    assert {api for api in classify.CLUSTER_APIS if any(path.startswith(f"{api}.") for path in paths)}


def test_all_names_of_a_message_are_names() -> None:
    """A spot check by hand, so that not only the rules judge the rules."""
    table = json.loads((Path(wire.__file__).parent / "classification.json").read_text())["fields"]
    assert table["metadata.response"] == {
        ".brokers[].host": FieldClass.BROKER_ADDRESS.value,
        ".brokers[].port": FieldClass.BROKER_ADDRESS.value,
        ".brokers[].rack": FieldClass.RACK.value,
        ".cluster_id": FieldClass.CLUSTER_ID.value,
        ".topics[].name": FieldClass.TOPIC_NAME.value,
        ".topics[].topic_id": FieldClass.TOPIC_ID.value,
    }
    assert table["add_partitions_to_txn.request"] == {
        ".transactions[].topics[].name": FieldClass.TOPIC_NAME.value,
        ".transactions[].transactional_id": FieldClass.TRANSACTIONAL_ID.value,
        ".v3_and_below_topics[].name": FieldClass.TOPIC_NAME.value,
        ".v3_and_below_transactional_id": FieldClass.TRANSACTIONAL_ID.value,
    }


def test_another_kio_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_kio_version()
    monkeypatch.setattr(kio, "__version__", "0.7.0")
    with pytest.raises(WrongKioVersion, match=r"0\.7\.0"):
        check_kio_version()
