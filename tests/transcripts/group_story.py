"""The language of the transcripts of a group coordinator: members ask, its log answers.

    commands                                        output
    join NAME [session=MS] [static=INSTANCE]        what each answer says, once it leaves
    sync NAME [NAME=WORD ...]  (a leader assigns)   state  of the group, where it has moved
    beat NAME | leave NAME | commit NAME OFFSET     offset that is committed, where it has moved
    hold | release | refuse ERROR                   appends wait from now on; the first of them ends so
    pass MS | restart                               time goes by; another process reads the log

Members are called by names of the transcript; a member that joins again says the id it was given.
"""

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker.groups.messages import JoinResult, SyncResult
from tests.unit.groups.world import Slot, World


class Story:
    """One group and the commands of a transcript."""

    def __init__(self) -> None:
        self._world = World()
        self._waiting: list[tuple[str, str, Slot]] = []
        self._joined: dict[str, JoinResult] = {}
        self._state = self._offset = ""

    def run(self, line: str) -> str:
        """Carry out a command; what came of it."""
        word, *words = line.split()
        _COMMANDS[word](self, *words)
        self._world.pass_ms(0)  # what is due happens at once
        return "\n".join(self._answers() + self._moves()) or "nothing"

    def _join(self, name: str, *options: str) -> None:
        given = dict(option.split("=") for option in options)
        known = self._joined.get(name)
        slot = self._world.join(
            "" if known is None else known.member_id,
            instance=given.get("static"),
            session_ms=int(given.get("session", "10000")),
            client=name,
        )
        self._waiting.append(("join", name, slot))

    def _sync(self, name: str, *assignments: str) -> None:
        given = dict(each.split("=") for each in assignments)
        assigned = {self._joined[to].member_id: word.encode() for to, word in given.items()}
        self._waiting.append(("sync", name, self._world.sync(self._joined[name], assigned)))

    def _beat(self, name: str) -> None:
        joined = self._joined[name]
        self._told(f"beat {name}", self._world.heartbeat(joined.member_id, joined.generation_id))

    def _leave(self, name: str) -> None:
        self._told(f"leave {name}", self._world.leave(self._joined[name].member_id).error)

    def _commit(self, name: str, offset: str) -> None:
        joined = self._joined[name]
        slot = self._world.commit_parked(
            int(offset), member_id=joined.member_id, generation=joined.generation_id
        )
        self._waiting.append(("commit", name, slot))

    def _hold(self) -> None:
        self._world.hold = True

    def _release(self) -> None:
        self._world.release()

    def _refuse(self, error: str) -> None:
        self._world.refuse(ErrorCode[error])

    def _pass(self, duration_ms: str) -> None:
        self._world.pass_ms(int(duration_ms))

    def _restart(self) -> None:
        self._world.hold = False
        self._waiting.clear()
        self._world.restart()

    def _told(self, what: str, error: ErrorCode) -> None:
        slot = Slot()
        slot(error)
        self._waiting.append((*what.split(), slot))

    def _answers(self) -> list[str]:
        told = []
        for what, name, slot in self._waiting:
            if not slot.is_parked:
                if isinstance(slot.result, JoinResult):
                    self._joined[name] = slot.result
                told.append(f"{what} {name}: {self._answer(slot.result)}")
        self._waiting = [each for each in self._waiting if each[2].is_parked]
        return told

    def _answer(self, result: Any) -> str:
        if isinstance(result, JoinResult) and result.error is ErrorCode.none:
            role = "leads" if result.leader == result.member_id else "follows"
            members = f", members: {len(result.members)}" if result.members else ""
            return f"{role} in generation {result.generation_id}{members}"
        if isinstance(result, SyncResult) and result.error is ErrorCode.none:
            return f"is assigned {result.assignment.decode() or 'nothing'}"
        if isinstance(result, ErrorCode):
            return str(result.name)
        errors = getattr(result, "errors", None)
        error = next(iter(errors.values())) if errors else result.error
        return str(error.name)

    def _moves(self) -> list[str]:
        is_known = any(each.group_id == "g" for each in self._world.coordinator.list_groups())
        state = self._world.state() if is_known else "none"
        offset = str(self._world.offset())
        told = [f"state {state}"] if state != self._state else []
        told += [f"offset {offset}"] if offset != self._offset else []
        self._state, self._offset = state, offset
        return told


_COMMANDS: Final[dict[str, Any]] = {
    "join": Story._join,
    "sync": Story._sync,
    "beat": Story._beat,
    "leave": Story._leave,
    "commit": Story._commit,
    "hold": Story._hold,
    "release": Story._release,
    "refuse": Story._refuse,
    "pass": Story._pass,
    "restart": Story._restart,
}
