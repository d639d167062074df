"""What alarms are told of lags, asked of a cluster."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from contracts.specs import BrokerAddress
from runtime.clock import epoch_ms
from tenants.alarm_lags import Asked, Lags
from tenants.backend.cluster import Cluster, ConnectionPool
from tenants.backend.group_lags import GroupLags
from tenants.rules.alarm_figures import LAGS_EVERY_MS, lag_growing, lag_seconds
from tenants.rules.alarms import AlarmKind, Rule
from tests.integration import lag_truth
from tests.integration.stack import Stack

HOUR_MS = 3_600_000


@dataclass
class Asker:
    """Asks the brokers of a stack; `is_away`: at an address where nobody is."""

    stack: Stack
    is_away: bool = False

    async def cluster_of(self, _cluster_id: str) -> Cluster:
        pool = ConnectionPool((self.stack.data_dir / "internal.key").read_text().strip())
        brokers = [
            BrokerAddress(
                node_id=one["node_id"], host="127.0.0.1", port=1 if self.is_away else int(one["port"])
            )
            for one in self.stack.facts["brokers"]
        ]
        return Cluster(pool, tuple(brokers))


@pytest.fixture
def instances(stack: Stack) -> Iterator[list[dict[str, Any]]]:
    made = [stack.create_instance(f"lag-{uuid.uuid4().hex[:8]}") for _ in range(2)]
    for one in made:
        stack.api("POST", f"instances/{one['id']}/topics", {"name": "orders", "partitions": 1})
    yield made
    for one in made:
        stack.api("DELETE", f"instances/{one['id']}")


async def test_all_groups_are_told_in_seconds_where_that_is_wanted(
    stack: Stack, instances: list[dict[str, Any]]
) -> None:
    late, neighbour = instances
    log = lag_truth.KnownLog(late, "orders")
    log.write([2 * HOUR_MS, HOUR_MS, 0, 0, 0])
    for group, offset in (("few", 1), ("done", 5)):
        lag_truth.commit(late, group, "orders", offset)
    asker, group_lags = Asker(stack), GroupLags()
    lags = Lags(asker.cluster_of, group_lags)
    asked = {
        late["id"]: Asked("t", "builtin-1", 10**9, wants_seconds=True),
        neighbour["id"]: Asked("t", "builtin-1", 4),
    }
    rule = Rule(AlarmKind.LAG_SECONDS, True, 60, 0, 1, 1)
    try:
        for _ in range(20):  # a record's time that is not known at once is known at a later look
            await lags.look(asked)
            if lags.latest(epoch_ms()).get(late["id"]):
                break
        found = lag_seconds(lags.seen[late["id"]], rule, epoch_ms())
        assert found.value is not None and abs(found.value - 3600) < 600 and "group few" in found.says
        ages = lags.seen[late["id"]].ages
        assert ages is not None and ages["done"].seconds == 0
        assert lags.latest(epoch_ms()).keys() == {late["id"]}, "of the neighbour nobody asked for seconds"
        asker.is_away = True
        await lags.look(asked)
        assert lags.seen[late["id"]].ages == ages, "whoever cannot be asked has not caught up"
        assert lags.latest(epoch_ms() + 4 * LAGS_EVERY_MS) == {}, "an old figure is none"
    finally:
        group_lags.times.close()


async def test_the_worst_group_is_told_in_records_and_seconds(
    stack: Stack, instances: list[dict[str, Any]]
) -> None:
    behind, neighbour = instances
    log = lag_truth.KnownLog(behind, "orders")
    log.write([2 * HOUR_MS, HOUR_MS, 0, 0, 0])
    for group, offset in (("worst", 1), ("other", 4)):
        lag_truth.commit(behind, group, "orders", offset)
    asker, group_lags = Asker(stack), GroupLags()
    lags = Lags(asker.cluster_of, group_lags)
    asked = {one["id"]: Asked("t", "builtin-1", 4) for one in instances}

    def found(instance: dict[str, Any]) -> tuple[float | None, str]:
        told = lag_growing(lags.seen.get(instance["id"]), epoch_ms())
        return told.value, told.says

    try:
        await lags.look(asked)
        assert found(behind)[0] is None, "one look does not say who catches up"
        for _ in range(20):  # a record's time that is not known at once is known at a later look
            await lags.look(asked)
            worst = lags.seen[behind["id"]].worst
            if worst is not None and worst.seconds is not None:
                break
        value, says = found(behind)
        assert value == 4 and "group worst is 4 records, 36" in says
        assert found(neighbour) == (0, "0 groups, all catch up or have nothing to do")
        asker.is_away = True
        await lags.look(asked)
        assert found(behind) == (value, says), "whoever cannot be asked has not caught up"
        asker.is_away = False
        lag_truth.commit(behind, "worst", "orders", 5)
        await lags.look(asked)
        assert found(behind)[0] == 1, "the other group stays where it is"
        await lags.look({})
        assert lags.seen == {}
    finally:
        group_lags.times.close()
