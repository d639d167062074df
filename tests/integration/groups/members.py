"""Group members as processes, what they saw, and what must hold of it."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.integration.broker.process import ROOT

_PATIENCE_S: Final = 40.0


def wait_until(holds: Callable[[], bool], what: Callable[[], str], patience_s: float = _PATIENCE_S) -> None:
    """Poll until something holds, or fail saying what is instead."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


class MemberProcess:
    """One member: its process and the events it printed."""

    def __init__(self, name: str, client: str, address: str, group: str, topic: str, *options: str) -> None:
        self.name = name
        self.events: list[dict[str, Any]] = []
        self._errors = Path(tempfile.mkstemp(prefix=f"{name}.", suffix=".log")[1])
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.integration.groups.member",
                    client,
                    address,
                    group,
                    topic,
                    *options,
                ],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.events.append(json.loads(line))

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Its events of one kind, in order."""
        return [event for event in list(self.events) if event["event"] == kind]

    @property
    def owned(self) -> set[int]:
        """The partitions it has now."""
        held: set[int] = set()
        for event in list(self.events):
            if event["event"] == "assigned":
                held = set(event["partitions"])
            elif event["event"] == "revoked":
                held -= set(event["partitions"])
        return held if self._process.poll() is None else set()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def log(self) -> str:
        return self._errors.read_text()[-6_000:]

    def leave(self) -> None:
        """SIGTERM: it says goodbye. That waits for the group, where others have gone without a word."""
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not leave: {self.events[-3:]}\n{self.log()}") from None
        self._reader.join(5)

    def die(self) -> None:
        """SIGKILL: it says nothing."""
        self._process.kill()
        self._process.wait(10)
        self._reader.join(5)

    def forget(self) -> None:
        """Clean up."""
        if self.is_alive:
            self.die()
        self._errors.unlink(missing_ok=True)


class GroupOfMembers:
    """All members of one group, past and present."""

    def __init__(self, address: str, group: str, topic: str, partitions: int) -> None:
        self._where = (address, group, topic)
        self._partitions = set(range(partitions))
        self.members: list[MemberProcess] = []

    def start(self, client: str = "confluent", *options: str) -> MemberProcess:
        """One more member."""
        name = f"{self._where[1]}-{len(self.members)}-{client}"
        member = MemberProcess(name, client, *self._where, *options)
        self.members.append(member)
        return member

    def settle(self, count: int) -> None:
        """Wait until `count` members own all partitions, each some and none twice."""

        def settled() -> bool:
            shares = [member.owned for member in self.members if member.is_alive]
            held = [partition for share in shares for partition in share]
            return len(shares) == count and all(shares) and sorted(held) == sorted(self._partitions)

        def what() -> str:
            shares = {member.name: sorted(member.owned) for member in self.members}
            return f"{shares}\n" + "\n".join(member.log() for member in self.members)

        wait_until(settled, what)

    def values(self) -> set[str]:
        """Every value any member got."""
        return {event["value"] for member in self.members for event in member.of("message")}

    def reprocessed(self) -> list[str]:
        """Messages delivered although a commit beyond them was acknowledged before they were assigned."""
        commits = [
            (event["at"], int(partition), offset)
            for member in self.members
            for event in member.of("committed")
            for partition, offset in event["offsets"].items()
        ]
        found = []
        for member in self.members:
            floors: dict[int, int] = {}
            for event in member.events:
                if event["event"] == "assigned":
                    for partition in event["partitions"]:
                        earlier = [
                            offset
                            for at, of, offset in commits
                            if of == partition and at < event["at"] - 0.05
                        ]
                        floors[partition] = max(earlier, default=0)
                elif event["event"] == "message" and event["offset"] < floors.get(event["partition"], 0):
                    found.append(f"{member.name}: {event}, committed {floors[event['partition']]}")
        return found


@contextmanager
def group_of_members(address: str, group: str, topic: str, partitions: int) -> Iterator[GroupOfMembers]:
    """A group whose processes are gone at the end."""
    made = GroupOfMembers(address, group, topic, partitions)
    try:
        yield made
    finally:
        for member in made.members:
            member.forget()
