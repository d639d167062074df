"""Connection limits and the table of all workers they are counted in."""

from pathlib import Path

import pytest

from contracts.specs import Limits
from ctl.stack.settings import workers_default
from gateway.causes import DisconnectCause
from gateway.config import GatewayConfig
from gateway.rules.limits import ConnectionCounts, admission_fault
from gateway.shared_table import SharedTable

LIMITS = Limits(connections_max=10, connections_per_ip_max=5, connection_rate_max=3)


@pytest.mark.parametrize(
    ("counts", "fault"),
    [
        (ConnectionCounts(9, 4, 2), None),
        (ConnectionCounts(10, 0, 0), DisconnectCause.CONNECTIONS_MAX),
        (ConnectionCounts(5, 5, 0), DisconnectCause.CONNECTIONS_PER_IP_MAX),
        (ConnectionCounts(0, 0, 3), DisconnectCause.CONNECTION_RATE_MAX),
        (ConnectionCounts(10, 10, 3), DisconnectCause.CONNECTION_RATE_MAX),
    ],
)
def test_admission(counts: ConnectionCounts, fault: DisconnectCause | None) -> None:
    assert admission_fault(LIMITS, counts) is fault


def test_workers_see_each_other(tmp_path: Path) -> None:
    one, two = SharedTable(tmp_path / "table", 0), SharedTable(tmp_path / "table", 1)
    assert one.opened("a", 7) and one.opened("a", 8) and two.opened("a", 8) and two.opened("b", 8)
    assert one.total("a", 8) == two.total("a", 8) == (3, 2)
    assert one.total("a", 9) == (3, 0)
    one.closed("a")
    assert two.total("a", 8) == (2, 2)
    two.close()
    assert one.total("a", 8) == (1, 1)


@pytest.mark.parametrize("cores", [None, 1, 33, 64, 256, 512])
def test_every_worker_of_a_large_machine_has_its_region(tmp_path: Path, cores: int | None) -> None:
    """One worker per core is the default: 33 cores used to start workers that the table had no room for."""
    last = workers_default(cores) - 1
    assert GatewayConfig(name=f"gateway-{last}", specs_file=Path("x")).faults() == []
    first, other = SharedTable(tmp_path / "table", 0), SharedTable(tmp_path / "table", last)
    assert other.opened("a", 7) and first.total("a", 7) == (1, 1)
    used_bytes = (tmp_path / "table").stat().st_blocks * 512
    assert used_bytes < 4 * 1024 * 1024, "regions of workers that do not exist take room on the disk"


def test_a_dead_workers_counts_are_cleared_by_its_successor(tmp_path: Path) -> None:
    survivor, dead = SharedTable(tmp_path / "table", 0), SharedTable(tmp_path / "table", 3)
    for _ in range(5):
        dead.opened("a", 1)
    assert survivor.total("a", 1) == (5, 5)
    successor = SharedTable(tmp_path / "table", 3)
    assert survivor.total("a", 1) == (0, 0)
    assert successor.opened("a", 1)
    assert survivor.total("a", 1) == (1, 1)


def test_entries_of_names_without_connections_are_taken_again() -> None:
    table = SharedTable(None, 0)
    for number in range(100_000):
        name = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        assert table.opened(name, number), number
        table.closed(name)
    assert table.total("10.1.134.159", 99_999) == (0, 1)


def test_a_full_window_says_so() -> None:
    table = SharedTable(None, 0)
    counted = [name for name in map(str, range(40_000)) if table.opened(name, 0)]
    assert 20_000 < len(counted) < 40_000
    for name in counted:
        assert table.total(name, 0) == (1, 1)
        table.closed(name)
    assert table.opened("40000", 0)
