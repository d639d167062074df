"""Consumer groups (KIP-848) over a lossy network with a coordinator that restarts from its log, by one seed.

What holds at every step:

* `OneOwnerPerEpoch`: no two have been given a partition, in the coordinator's eyes;
* `OwnsWhatIsGiven`: no member of the group reads what it has not been given; one whose answers are lost goes
  on with what it had;
* `OneReader`: so no two members of the group read a partition at once.

After a quiet time `Converges`: all members are of one epoch and have all partitions.
"""

import itertools
import random

from kio.schema.errors import ErrorCode

from broker.groups.consumer_group import held
from tests.unit.groups.consumers import Member
from tests.unit.groups.world import World

_STARTS_ANEW = (
    ErrorCode.unknown_member_id,
    ErrorCode.fenced_member_epoch,
    ErrorCode.group_id_not_found,
)


class Story:
    """One seed's history."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(gather_ms_max=self.random.choice((0, 1_000)))
        self.world.topics.set("u", 3)
        self.members: list[Member] = []
        self.restarts = 0
        self._names = itertools.count()

    def run(self, steps: int) -> None:
        """Trouble, then quiet, then all is settled."""
        for _ in range(steps):
            self._trouble()
            for member in self.random.sample(self.members, len(self.members)):
                self._beat(member, lossy=True)
                self.check()
        self.world.hold = False
        while self.world.held:
            self.world.release()
        # Those that went without a word are out after their sessions.
        for _ in range(2 * self.world.config.consumer_session_timeout_ms // 3_000):
            self.world.pass_ms(3_000)
            for member in self.members:
                self._beat(member, lossy=False)
                self.check()
        self._check_settled()

    def _trouble(self) -> None:
        chance = self.random.random()
        if len(self.members) < 2 or chance < 0.25:
            names = self.random.choice((("t",), ("t", "u")))
            assignor = self.random.choice((None, None, "range"))
            self.members.append(Member(self.world, f"m{next(self._names)}", *names, assignor=assignor))
        elif chance < 0.35:
            self.members.pop(self.random.randrange(len(self.members)))
        elif chance < 0.45:
            self.members.pop(self.random.randrange(len(self.members))).send(member_epoch=-1)
        elif chance < 0.55:
            self.world.restart()
            self.world.hold = False
            self.restarts += 1
        elif chance < 0.62:
            topic = self.random.choice("tu")
            self.world.topics.set(topic, self.world.topics.partitions[topic] + 1)
        elif chance < 0.75:
            self.world.hold = not self.world.hold
        elif self.world.held:
            refuse = self.random.random() < 0.3
            if refuse:
                self.world.refuse(ErrorCode.kafka_storage_error)
            else:
                self.world.release()
        self.world.pass_ms(self.random.choice((0, 200, 3_000, 20_000)))

    def _beat(self, member: Member, *, lossy: bool) -> None:
        if lossy and self.random.random() < 0.2:
            return
        # Letting go and confirming it are two things: a member that has not confirmed reports what it had.
        slot = member.send()
        if slot.is_parked and not lossy:
            self.world.pass_ms(self.world.config.gather_ms_max)
        if slot.is_parked or (lossy and self.random.random() < 0.1):
            member.missed = True
            return
        if slot.error in _STARTS_ANEW:
            member.epoch, member.owned = 0, {}
        elif slot.error is ErrorCode.none:
            member.hear(slot.result)

    def check(self) -> None:
        """The invariants."""
        group = self.world.coordinator.consumer_group("g")
        if group is None:
            return
        for member_id, current in group.current.items():
            for topic_id, index in held(current):
                assert group.owner(topic_id, index) == member_id, "OneOwnerPerEpoch"
        taken: dict[tuple[object, int], str] = {}
        for member in self.members:
            current = group.current.get(member.member_id)
            if current is None:
                continue  # it has been put out: its heartbeat will tell
            has = set(held(current))
            for topic_id, indexes in member.owned.items():
                for index in indexes:
                    assert (topic_id, index) in has, f"OwnsWhatIsGiven: {member.member_id}"
                    assert (topic_id, index) not in taken, (
                        f"OneReader: {taken[topic_id, index]}, {member.member_id}"
                    )
                    taken[topic_id, index] = member.member_id

    def _check_settled(self) -> None:
        if not self.members:
            return
        group = self.world.coordinator.consumer_group("g")
        assert group is not None
        assert group.state == "Stable", f"Converges: {group.state}"
        assert set(group.members) == {member.member_id for member in self.members}, "Converges: members"
        for topic, partitions in self.world.topics.partitions.items():
            readers = [member for member in self.members if topic in member.names]
            owned = sorted(index for member in readers for index in member.has(topic))
            assert owned == (list(range(partitions)) if readers else []), f"Converges: {topic}"


def story(seed: int, steps: int = 30) -> Story:
    """Run one seed."""
    told = Story(seed)
    told.run(steps)
    return told
