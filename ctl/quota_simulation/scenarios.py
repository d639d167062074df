"""What happens in a run: who offers how much, what breaks, and when. Demands are parts of T."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ctl.quota_simulation.sources import Source
from ctl.quota_simulation.world import World

RATE_BYTES_PER_S: Final = 100_000_000
"""T of every scenario; all figures are in parts of it."""
GREEDY: Final = 2.0
"""A source that wants more than there is."""


@dataclass(slots=True)
class Stage:
    """A world with one source per partition, as a scenario's script sees it."""

    world: World
    sources: Sequence[Source]
    rounds: int

    @property
    def first(self) -> int:
        """The round at a third of the run, where most scripts disturb something."""
        return self.rounds // 3

    @property
    def second(self) -> int:
        """The round at two thirds."""
        return 2 * self.rounds // 3

    def offer(self, *parts: float) -> None:
        """The demand of each partition from now on."""
        for source, part in zip(self.sources, parts, strict=True):
            source.set_rate(round(part * RATE_BYTES_PER_S))

    def move(self, partition: int, node_id: int) -> None:
        """Another leader for a partition."""
        source = self.sources[partition]
        self.world.move_leaders(1, source.leader.node_id, node_id)
        source.leader = self.world.brokers[node_id]


Script = Callable[[Stage, int], None]
"""Called at the start of every round with its number."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the table."""

    name: str
    title: str
    script: Script
    brokers: int = 3
    partitions_each: int = 1
    report_loss: float = 0.0
    stale_rounds: int = 0
    disturbed: Callable[[int], tuple[int, ...]] = field(default=lambda _: (0,))
    """The rounds before which something changes, by the number of rounds."""


def _thirds(rounds: int) -> tuple[int, ...]:
    return 0, rounds // 3, 2 * rounds // 3


def _at_first(rounds: int) -> tuple[int, ...]:
    return 0, rounds // 3


def _steady(*parts: float) -> Script:
    def script(stage: Stage, number: int) -> None:
        if number == 0:
            stage.offer(*parts)

    return script


def _zipf(stage: Stage, number: int) -> None:
    if number == 0:
        weights = [1 / rank for rank in range(1, len(stage.sources) + 1)]
        stage.offer(*(1.5 * weight / sum(weights) for weight in weights))


_STAYS_ROUNDS: Final = 10


def _moving(stage: Stage, number: int) -> None:
    if number % _STAYS_ROUNDS == 0:
        hot = number // _STAYS_ROUNDS % len(stage.sources)
        stage.offer(*(1.0 if index == hot else 0.0 for index in range(len(stage.sources))))


def _moves(rounds: int) -> tuple[int, ...]:
    return tuple(range(0, rounds, _STAYS_ROUNDS))


def _then_greedy(stage: Stage, number: int) -> None:
    others = len(stage.sources) - 1
    if number == 0:
        stage.offer(GREEDY, *[0.0] * others)
    elif number == stage.first:
        stage.offer(*[GREEDY] * (others + 1))


def _bursts(stage: Stage, number: int) -> None:
    """Broker 1 is on for one period and off for one; the others go on quietly."""
    stage.offer(0.8 if number % 2 == 0 else 0.0, 0.1, 0.1)


def _bursts_in_turn(stage: Stage, number: int) -> None:
    """Every period another broker has the burst."""
    stage.offer(*(0.8 if index == number % 3 else 0.0 for index in range(3)))


def _noise(stage: Stage, _number: int) -> None:
    draw = stage.world.random.uniform
    stage.offer(*(part * draw(0.8, 1.2) for part in (0.7, 0.2, 0.2)))


def _over_then_all(stage: Stage, number: int) -> None:
    if number == 0:
        stage.offer(2.0, 0.2, 0.2)
    elif number == stage.first:
        stage.offer(0.2, 2.0, 0.2)
    elif number == stage.second:
        stage.offer(GREEDY, GREEDY, GREEDY)


def _failover(stage: Stage, number: int) -> None:
    """First for less than a lease, then for longer; the new master has no journal."""
    world = stage.world
    if number == 0:
        stage.offer(2.0, 0.2, 0.2)
    if number in (stage.first, stage.second):
        world.stop_master()
    if number in (stage.first + 3, stage.second + 8):
        world.start_master(keep_journal=False)


def _failover_ends(rounds: int) -> tuple[int, ...]:
    return 0, rounds // 3 + 3, 2 * rounds // 3 + 8


_SESSION_ROUNDS: Final = 6
"""Until the cluster gives a dead broker's partitions to another one."""


def _leaves(stage: Stage, number: int) -> None:
    world = stage.world
    if number == 0:
        stage.offer(0.5, 0.5, 0.5)
    elif number == stage.first:
        world.brokers[3].stop()
    elif number == stage.first + _SESSION_ROUNDS:
        stage.move(2, 1)
    elif number == stage.second:
        world.brokers[3].start()
    elif number == stage.second + 3:
        stage.move(2, 3)


def _leave_ends(rounds: int) -> tuple[int, ...]:
    return 0, rounds // 3 + _SESSION_ROUNDS, 2 * rounds // 3 + 3


def _moved(stage: Stage, number: int) -> None:
    if number == 0:
        stage.offer(0.8, 0.05, 0.05, 0.05, 0.05, 0.05)
    elif number == stage.first:
        stage.move(0, 2)
    elif number == stage.second:
        stage.move(0, 3)


SCENARIOS: Final = (
    Scenario("even", "30 / 30 / 30 % of T", _steady(0.3, 0.3, 0.3)),
    Scenario("even-full", "everybody wants all", _steady(1.0, 1.0, 1.0)),
    Scenario("hot", "70 / 5 / 5 %", _steady(0.7, 0.05, 0.05)),
    Scenario("single", "100 / 0 / 0 %", _steady(1.0, 0.0, 0.0)),
    Scenario("over", "200 / 20 / 20 %", _steady(2.0, 0.2, 0.2)),
    Scenario("zipf-12", "150 % by Zipf's law over 12 brokers", _zipf, brokers=12),
    Scenario(
        "moving",
        f"100 % on one broker, another one every {_STAYS_ROUNDS} rounds",
        _moving,
        disturbed=_moves,
    ),
    Scenario("greedy-3", "one wants all, then all 3 do", _then_greedy, disturbed=_at_first),
    Scenario("greedy-12", "one wants all, then all 12 do", _then_greedy, brokers=12, disturbed=_at_first),
    Scenario("greedy-24", "one wants all, then all 24 do", _then_greedy, brokers=24, disturbed=_at_first),
    Scenario("bursts", "80 % on and off each period, 10 / 10 % besides", _bursts),
    Scenario("in-turn", "80 % on another broker each period", _bursts_in_turn),
    Scenario("noise", "70 / 20 / 20 %, each ± 20 % every round", _noise),
    Scenario(
        "loss",
        "1 of 5 reports and of 5 answers is lost; 200 / 20 / 20, 20 / 200 / 20, all",
        _over_then_all,
        report_loss=0.2,
        disturbed=_thirds,
    ),
    *(
        Scenario(
            f"stale-{rounds}",
            f"the same with reports {rounds} round{'s' if rounds > 1 else ''} old",
            _over_then_all,
            stale_rounds=rounds,
            disturbed=_thirds,
        )
        for rounds in (1, 2, 3, 4)
    ),
    Scenario(
        "failover",
        "200 / 20 / 20 %; no master for 3 rounds, then for 8; each new one without a journal",
        _failover,
        disturbed=_failover_ends,
    ),
    Scenario(
        "leaves",
        f"50 / 50 / 50 %; one dies, {_SESSION_ROUNDS} rounds later its partition moves; it returns",
        _leaves,
        disturbed=_leave_ends,
    ),
    Scenario(
        "moved",
        "two partitions each, the one with 80 % gets another leader twice",
        _moved,
        partitions_each=2,
        disturbed=_thirds,
    ),
)
