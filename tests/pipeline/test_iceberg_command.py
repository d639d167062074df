"""What Spark loaded and decoded is read by name by pyiceberg, by commands of a stack that runs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.integration.stack import ROOT, Stack
from tests.pipeline.topics import Record, Topics


class Commands:
    """`portico pipeline ...` of one stack."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """However it ends."""
        command = [sys.executable, "-m", "runtime.start", "ctl.main", "pipeline", *words]
        return subprocess.run(
            [*command, "--data-dir", str(self._data_dir)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def answer(self, *words: str) -> Any:
        """Of one that succeeds."""
        told = self.run(*words, "--json")
        assert told.returncode == 0, told.stderr
        return json.loads(told.stdout)

    def states(self, *words: str) -> dict[str, str]:
        """Of `iceberg`, by name."""
        return {each["name"]: each["state"] for each in self.answer("iceberg", *words)}

    def rows(self, name: str) -> list[dict[str, Any]]:
        """As a stranger reads them."""
        url = f"sqlite:///{self._data_dir}/pipeline/iceberg/catalog.db"
        found: list[dict[str, Any]] = (
            SqlCatalog("portico", uri=url).load_table(name).scan().to_arrow().to_pylist()
        )
        return found


@pytest.mark.long
def test_a_topic_is_loaded_decoded_and_forgotten(stack: Stack) -> None:
    commands = Commands(stack.data_dir.resolve())
    refused = commands.run("iceberg")
    assert refused.returncode == 1
    assert "nothing was loaded yet" in refused.stderr
    instance = stack.create_instance("Ice-Shop")
    topics = Topics(instance["bootstrap_servers"])
    topics.create("orders", partitions=2)
    topics.produce("orders", [Record(b"v%d" % n, b"k%d" % (n % 10), n % 2) for n in range(100)])
    commands.answer("load", instance["id"])
    assert commands.states() == {"ice_shop.orders": "made"}
    loaded = commands.rows("ice_shop.orders")
    assert sorted(each["value"] for each in loaded) == sorted(b"v%d" % n for n in range(100))
    assert commands.states("Ice-Shop", "--topic", "orders") == {"ice_shop.orders": "as it was"}

    schema = stack.data_dir / "line.json"
    schema.write_text(json.dumps({"version": 1, "format": "text", "fields": "line STRING"}))
    commands.answer("decode", instance["id"], "--topic", "orders", "--schema", str(schema))
    assert commands.states() == {
        "ice_shop.orders": "as it was",
        "ice_shop.orders_dead_letters": "made",
        "ice_shop.orders_decoded": "made",
    }
    lines = commands.rows("ice_shop.orders_decoded")
    assert sorted(each["line"] for each in lines) == sorted(f"v{n}" for n in range(100))

    commands.answer("forget", instance["id"], "--topic", "orders", "--key", "k3", "--yes")
    assert set(commands.states().values()) == {"as it was", "changed"}
    assert {each["key"] for each in commands.rows("ice_shop.orders")} == {
        b"k%d" % n for n in range(10) if n != 3
    }
    assert len(commands.rows("ice_shop.orders_decoded")) == 90

    for words in (["Ice-Shop", "--topic", "clicks"], ["nobody"]):
        wrong = commands.run("iceberg", *words)
        assert wrong.returncode == 1 and "Traceback" not in wrong.stderr, wrong.stderr
    for words in (["--topic", "clicks"], ["Ice-Shop", "--drop-gone"], ["--catalog", "mysql://x/y"]):
        assert commands.run("iceberg", *words).returncode == 2
