"""Runs one scenario under one policy and records what happened round by round."""

from collections import deque
from dataclasses import dataclass
from typing import Final

from contracts.quota import Direction
from ctl.quota_simulation.metrics import Metrics, Record, Round, judge
from ctl.quota_simulation.scenarios import RATE_BYTES_PER_S, Scenario, Stage
from ctl.quota_simulation.sources import Source
from ctl.quota_simulation.world import ID, World
from master.settings import MasterSettings

ROUNDS: Final = 60
_PERIOD_MS: Final = 1_000
_SAMPLE_MS: Final = 50
_BELOW: Final = 0.95
"""The total counts as below T when less than this of it came in the last second."""
_REQUESTS_PER_ROUND: Final = 200
"""Requests of each broker at its static share: figures are as fine as one request."""


@dataclass(frozen=True, slots=True)
class Result:
    """One cell row of the table."""

    scenario: str
    policy: str
    metrics: Metrics
    record: Record


def simulate(scenario: Scenario, policy: str, seed: int, rounds: int = ROUNDS) -> Result:
    """One run; the same arguments give the same result."""
    world = World(seed, MasterSettings(policy=policy))
    for node_id in range(1, scenario.brokers + 1):
        world.add_broker(node_id, scenario.partitions_each)
    world.add_instance(RATE_BYTES_PER_S)
    size_bytes = RATE_BYTES_PER_S // (scenario.brokers * _REQUESTS_PER_ROUND)
    leaders = [broker for broker in world.brokers.values() for _ in range(scenario.partitions_each)]
    sources = [Source(world, leader, size_bytes) for leader in leaders]
    world.run(3 * _PERIOD_MS)  # everybody has reported, nobody has asked for anything
    world.report_loss = scenario.report_loss
    world.report_delay_ms = scenario.stale_rounds * _PERIOD_MS
    stage = Stage(world, sources, rounds)
    record = Record(disturbed_at=scenario.disturbed(rounds))
    observer = _Observer(stage)
    for number in range(rounds):
        scenario.script(stage, number)
        record.rounds.append(observer.observe_round())
    world.journal.close()
    return Result(scenario.name, policy, judge(record), record)


class _Observer:
    """Lets one round pass at a time and looks on."""

    def __init__(self, stage: Stage) -> None:
        self._world = stage.world
        self._sources = stage.sources
        self._totals: deque[int] = deque([0], maxlen=_PERIOD_MS // _SAMPLE_MS + 1)
        """Delivered so far, at each sample of the last second."""
        self._rates = self._applied()

    def observe_round(self) -> Round:
        demand = self._by_broker(
            {
                source: source.rate_bytes_per_s * _PERIOD_MS // 1000 + source.backlog_bytes
                for source in self._sources
                if source.leader.running
            }
        )
        before = {source: source.delivered_bytes for source in self._sources}
        issued, churn, wrongful = [], 0, 0
        for _ in range(_PERIOD_MS // _SAMPLE_MS):
            self._world.run(_SAMPLE_MS)
            rates = self._applied()
            churn += sum(abs(rates[node_id] - self._rates[node_id]) for node_id in rates)
            self._rates = rates
            issued.append(sum(rates.values()) / RATE_BYTES_PER_S)
            self._totals.append(sum(source.delivered_bytes for source in self._sources))
            wrongful += self._is_below() and self._is_throttled()
        delivered = {source: source.delivered_bytes - before[source] for source in self._sources}
        return Round(
            demand=demand,
            delivered=self._by_broker(delivered),
            issued=tuple(issued),
            churn=churn / RATE_BYTES_PER_S,
            wrongful=wrongful * _SAMPLE_MS / _PERIOD_MS,
            allocated=tuple(rate / RATE_BYTES_PER_S for rate in self._rates.values()),
        )

    def _applied(self) -> dict[int, int]:
        return {
            node_id: broker.applied_rate if broker.running else 0
            for node_id, broker in self._world.brokers.items()
        }

    def _by_broker(self, values: dict[Source, int]) -> tuple[float, ...]:
        sums = dict.fromkeys(self._world.brokers, 0)
        for source, value in values.items():
            sums[source.leader.node_id] += value
        return tuple(value / RATE_BYTES_PER_S for value in sums.values())

    def _is_below(self) -> bool:
        in_a_second = self._totals[-1] - self._totals[0]
        return in_a_second < _BELOW * RATE_BYTES_PER_S * (len(self._totals) - 1) * _SAMPLE_MS / _PERIOD_MS

    def _is_throttled(self) -> bool:
        now_ms = self._world.now_ms
        return any(
            source.leader.running
            and source.backlog_bytes >= source.size_bytes
            and source.leader.point.unmute_at_ms(ID, Direction.PRODUCE, now_ms) > now_ms
            for source in self._sources
        )
