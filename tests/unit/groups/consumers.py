"""Members of consumer groups (KIP-848) that are driven call by call."""

from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.groups.consumer_messages import ConsumerHeartbeat, HeartbeatResult
from broker.groups.consumer_records import Partitions
from tests.unit.groups.world import Slot, World

NOTHING: Partitions = {}


class Member:
    """A client that does as it is told: it lets go and takes over when it hears of it."""

    def __init__(
        self,
        world: World,
        member_id: str,
        *names: str,
        group: str = "g",
        instance: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = 60_000,
    ) -> None:
        self.world = world
        self.member_id = member_id
        self.group = group
        self.instance = instance
        self.names = frozenset(names or ("t",)) if regex is None else frozenset(names)
        self.regex = regex
        self.assignor = assignor
        self.rebalance_ms = rebalance_ms
        self.epoch = 0
        self.owned: dict[UUID, frozenset[int]] = {}
        self.interval_ms = 0
        self.missed = False
        """Whether an answer was lost: it says everything then, and hears everything."""

    def send(self, **changes: Any) -> Slot:
        """One heartbeat: full while it joins or has missed an answer, short otherwise."""
        joins = self.epoch == 0
        full = joins or self.missed
        request = ConsumerHeartbeat(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance,
            rack_id=None,
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout_ms=self.rebalance_ms if full else None,
            topic_names=self.names if full else None,
            topic_regex=self.regex if full else None,
            server_assignor=self.assignor if full else None,
            owned=NOTHING if joins else dict(self.owned),
        )._replace(**changes)
        slot = Slot()
        self.world.run(self.world.coordinator.consumer_heartbeat(request, slot, self.world.now))
        return slot

    def hear(self, result: HeartbeatResult) -> None:
        """Take over what the coordinator says."""
        assert result.error is ErrorCode.none, result
        self.missed = False
        self.epoch = result.member_epoch
        self.interval_ms = result.interval_ms
        if result.assigned is not None:
            self.owned = dict(result.assigned)

    def beat(self, **changes: Any) -> HeartbeatResult:
        """A heartbeat whose answer comes at once."""
        result: HeartbeatResult = self.send(**changes).result
        if result.error is ErrorCode.none:
            self.hear(result)
        return result

    def leave(self, epoch: int = -1) -> HeartbeatResult:
        result: HeartbeatResult = self.send(member_epoch=epoch).result
        self.epoch, self.owned = 0, {}
        return result

    def has(self, topic: str = "t") -> list[int]:
        """Partitions of a topic that it owns."""
        return sorted(self.owned.get(self.world.topics.id_of(topic), ()))


def settle(*members: Member, rounds: int = 6) -> None:
    """Everybody's heartbeats, some rounds long."""
    for _ in range(rounds):
        for member in members:
            member.beat()


def all_owned(*members: Member, topic: str = "t") -> list[int]:
    """What all have together, whoever has it."""
    return sorted(index for member in members for index in member.has(topic))
