"""`portico bench gateway` on a real stack: every case has figures, and they are of the processes it names."""

from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from ctl.bench import gateway as bench
from ctl.bench.measure import Spread
from ctl.commands.bench import app
from ctl.errors import CommandError
from tests.vports import Vports

_COSTLY = {"offered half of direct"}
"""It takes its time by the clock."""


@pytest.fixture(scope="module")
def results() -> Iterator[dict[str, Any]]:
    vports = Vports()
    with pytest.MonkeyPatch.context() as few:
        few.setattr(bench, "_IDLE", 20)
        few.setattr(bench, "_ONE_BY_ONE", 20)
        few.setattr(bench, "_STORED", 12)
        few.setattr(bench, "_CONNECT_S", 0.1)
        cases = [case for case in bench.CASES if case not in _COSTLY]
        yield bench.run(1, 20, lambda _: None, only=cases, arguments=("--vports", str(vports)))


VERSIONS = [case for case in bench.CASES if case.startswith("versions")]
CARRY = [case for case in bench.CASES if "produce" in case or "consume" in case]


@pytest.mark.long
@pytest.mark.parametrize("case", VERSIONS)
def test_versions_are_compared_in_both_processes(results: dict[str, Any], case: str) -> None:
    assert set(results[case]) == {"gateway", "broker"}
    for found in results[case].values():
        assert len(found) == 3 and all(spread.low > 0 for spread in found.values())


@pytest.mark.long
@pytest.mark.parametrize("case", [case for case in CARRY if case not in VERSIONS])
def test_what_carries_bytes_costs_time_and_cpu(results: dict[str, Any], case: str) -> None:
    peers = {"small produce": bench.SMALL_PEERS}.get(case, bench.PEERS)
    for kind, others in (("librdkafka", bench.PEERS[:2]), ("TLS", bench.TLS_PEERS)):
        peers = others if case.startswith(kind) else peers
    assert set(results[case]) == set(peers)
    for found in results[case].values():
        assert found["MB/s"].low > 0
        assert found["CPU s/GB"].low > 0, "the process that is measured is the one that did the work"


@pytest.mark.long
def test_one_at_a_time(results: dict[str, Any]) -> None:
    for case in ("one-message latency ms", "librdkafka, one-message latency ms"):
        for found in results[case].values():
            assert 0 < found["p50"].median <= found["p99"].median
    for found in results["connections per s"].values():
        assert isinstance(found, Spread) and found.low > 0
    assert results["memory"]["worker RSS MB"] > 10


def test_a_case_that_is_not_there_is_told() -> None:
    told = CliRunner().invoke(app, ["gateway", "--only", "larg", "--only", "no such case"])
    assert isinstance(told.exception, CommandError)
    assert "no such case" in told.exception.sentence and "large produce" in told.exception.sentence
