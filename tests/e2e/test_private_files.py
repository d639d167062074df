"""Whatever a stack writes is for its own user, also where an earlier one left it open; so are its metrics."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer

from tests.integration.stack import Stack, running_stack


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack on a data directory that others could enter."""
    data_dir = tmp_path_factory.mktemp("open") / "data"
    data_dir.mkdir()
    data_dir.chmod(0o755)
    with running_stack(data_dir) as stack:
        yield stack


def _produce(stack: Stack) -> None:
    instance = stack.create_instance("private", auto_create_topics=True)
    producer = Producer({"bootstrap.servers": instance["bootstrap_servers"]})
    producer.produce("letters", b"for nobody else")
    assert producer.flush(20) == 0


def test_every_file_and_directory_is_the_owners(opened: Stack) -> None:
    _produce(opened)
    assert stat.S_IMODE(opened.data_dir.stat().st_mode) == 0o700
    found = [path for path in opened.data_dir.rglob("*") if path.name not in ("up.log", "ready.json")]
    names = " ".join(str(path) for path in found)
    for written in (".log", "portico.db", "master.db", "control.log", "broker-1.json"):
        assert written in names, f"no {written} in {opened.data_dir}"
    readable = [path for path in found if _is_open(path)]
    assert readable == []


def _is_open(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & 0o077)
    except FileNotFoundError:  # renamed or removed meanwhile
        return False


def test_metrics_of_all_processes_ask_for_the_secret(opened: Stack) -> None:
    secret = (opened.data_dir / "internal.key").read_text().strip()
    ports = {
        path.stem: f"http://127.0.0.1:{port}/metrics"
        for path in (opened.data_dir / "run").glob("*.json")
        if (port := json.loads(path.read_text()).get("metrics_port"))
    }
    urls = [*ports.values(), opened.facts["metrics"]["control"]]
    assert len(urls) >= 3, urls
    for url in urls:
        assert httpx.get(url, trust_env=False, timeout=20).status_code == 401, url
        told = httpx.get(url, headers={"Authorization": f"Bearer {secret}"}, trust_env=False, timeout=20)
        assert told.status_code == 200, url
        assert "portico_" in told.text
