"""The language of the transcripts of a broker's session: bytes come in, requests and answers come out.

    commands                                        output
    session [secret] [owes=MS]                      request  N: a whole frame, to be handled
      (`owes`: what its instance has to pay)        token    a bare one, of a login
    client FRAME [+ FRAME ...] [bytes=A:B]          left     bytes that are to be brought again
      KEY BYTES (api key and size of a frame)       muted    nothing is read for so long
      size N (a length prefix) | more               sends    answers that leave, by the numbers of requests
    agrees [bare] | logs-in AUTHORIZATION_ID        stop     why the connection ends
    answer N [mute=MS] | later N                    login    the state, where it has moved; who it is
    congested | taken | turn-waits | turn-comes
    tick MS [times=N] | at MS | ends CAUSE

Requests of a session are numbered in order. `bytes=A:B` sends that part of what the line says, `more` of
what the last one said. A request that is answered `later` lets the next one be handled.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from broker.config import MIB, BrokerConfig
from broker.net.session import FIRST_OF_KIND, INCOMPLETE, FrameFault, Session
from broker.requests.call import Call, Ready
from broker.requests.causes import CloseCause
from broker.requests.payer import Payer
from contracts.specs import InstanceSpec, InstanceState
from traffic.flow import BURST_MS
from traffic.point import TrafficPoint
from wire.api_table import ApiKey
from wire.codec import RequestHeader

_RATE: Final = 100_000
_INSTANCE: Final = InstanceSpec(
    revision=1,
    instance_id="iaaaaaaaaaaa",
    tenant="t",
    name="n",
    state=InstanceState.ACTIVE,
    cluster_id="c",
    produce_rate_bytes_per_s=_RATE,
    consume_rate_bytes_per_s=_RATE,
    capacity_bytes=10**9,
)


class Story:
    """A session, a host without sockets, and the commands of a transcript."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self, *options: str) -> None:
        config = BrokerConfig(
            node_id=1,
            cluster_id="c",
            data_dir=Path("/nowhere"),
            request_bytes_max=2 * MIB,
            secret="s" if "secret" in options else None,
        )
        self._session = Session(config, "192.0.2.1")
        self._point = TrafficPoint(point="broker-1", node_id=1, cluster_id="c", boot_id="b", now_ms=0)
        self._point.set_spec(_INSTANCE, 0)
        owed_ms = [int(each.removeprefix("owes=")) for each in options if each.startswith("owes=")]
        if owed_ms:
            owed_bytes = (BURST_MS + owed_ms[0]) * _RATE // 1000
            self._point.charge_produce(_INSTANCE.instance_id, owed_bytes, 0)
        self._now_ms = 0
        self._stream = b""
        self._last = b""
        self._calls: list[Call] = []
        self._login = self._session.login.state
        self._happened: list[str] = []

    def run(self, command: str) -> str:
        """What it makes happen."""
        verb, *words = command.split()
        self._happened = []
        self._verbs()[verb.replace("-", "_")](*words)
        login = self._session.login
        if login.state is not self._login:
            self._login = login.state
            self._happened.append(f"login {login.state.value}")
        return "\n".join(self._happened) or "nothing"

    def _verbs(self) -> dict[str, Callable[..., None]]:
        session = self._session
        return {
            "session": self._begin,
            "client": self._client,
            "agrees": lambda *words: session.login.agrees(on_bare_token=words == ("bare",)),
            "logs_in": self._logs_in,
            "answer": self._answer,
            "later": self._release,
            "congested": lambda: setattr(session, "is_congested", True),
            "taken": lambda: self._again(is_congested=False),
            "turn_waits": lambda: setattr(session, "awaits_turn", True),
            "turn_comes": lambda: self._again(awaits_turn=False),
            "tick": self._tick,
            "at": self._at,
            "ends": self._ends,
        }

    # -- commands ------------------------------------------------------------------------------------

    def _client(self, *words: str) -> None:
        frames = " ".join(word for word in words if not word.startswith("bytes=")).split(" + ")
        if frames != ["more"]:
            self._last = b"".join(map(_frame, frames))
        sent = self._last
        for word in words:
            if word.startswith("bytes="):
                start, end = word.removeprefix("bytes=").split(":")
                sent = sent[int(start or 0) : int(end) if end else None]
        if not self._stream:
            self._session.frame_begins()
        self._stream += sent
        self._session.stalled_ms = 0
        self._go_on()

    def _again(self, **state: bool) -> None:
        for name, value in state.items():
            setattr(self._session, name, value)
        self._go_on()

    def _go_on(self) -> None:
        """As a host does: hand over whole frames while some are taken, keep the rest."""
        session, at = self._session, 0
        with memoryview(self._stream) as view:
            while session.takes:
                try:
                    behind = session.next_frame(view, at, len(view))
                except FrameFault as fault:
                    self._happened.append(f"stop {fault.cause}")
                    break
                if behind == FIRST_OF_KIND:
                    session.admit(view, at, self._now_ms)
                    continue
                if behind == INCOMPLETE:
                    break
                session.idle_ms = 0
                self._handle(bytes(view[at + 4 : behind]))
                at = behind
        if at:
            session.frame_begins()
        self._stream = self._stream[at:]
        if self._stream:
            self._happened.append(f"left {len(self._stream)} bytes")
        if session.mute is not None:
            self._happened.append(f"muted {session.muted_ms(self._now_ms)} ms")

    def _handle(self, frame: bytes) -> None:
        if self._session.login.awaits_token:
            self._happened.append(f"token of {len(frame)} bytes")
            return
        api_key = ApiKey(int.from_bytes(frame[:2], "big"))
        header = RequestHeader(int(api_key), 0, len(self._calls) + 1, None, 0, False)
        call = Call(header, None, cast("Any", None), 0)
        payer = self._session.login.payer
        call.reservation = payer and payer.take_reservation()
        self._session.call = call
        self._calls.append(call)
        self._happened.append(f"request {len(self._calls)}: {api_key.name.lower()} of {len(frame)} bytes")

    def _logs_in(self, authorization_id: str = "") -> None:
        login = self._session.login
        instance_id = login.logs_in(authorization_id)
        if instance_id is not None:
            login.payer = Payer(self._point, instance_id)
        who = f"for {login.client_host}" if login.speaks_for_client else "for itself"
        if login.peer_broker is not None:
            who = f"broker {login.peer_broker.broker_id} of epoch {login.peer_broker.broker_epoch}"
        self._happened.append(f"{who}, {instance_id or 'nobody'} pays")

    def _answer(self, number: str, *words: str) -> None:
        mute_until_ms = [self._now_ms + int(word.removeprefix("mute=")) for word in words]
        mute = (lambda now_ms: mute_until_ms[0] - now_ms) if mute_until_ms else None
        call, reply = self._calls[int(number) - 1], Ready([number.encode()], mute)
        leaving = []
        if self._session.answered(call, reply):
            leaving.append(reply)
        else:
            while (ready := self._session.pending.take()) is not None:
                leaving.append(ready[1])
        for each in leaving:
            self._happened.append(f"sends {bytes((each.parts or [b''])[0]).decode()}")  # type: ignore[arg-type]
            self._session.mute = each.mute or self._session.mute
        self._go_on()

    def _release(self, number: str) -> None:
        self._session.release(self._calls[int(number) - 1])
        self._go_on()

    def _at(self, now_ms: str) -> None:
        self._now_ms = int(now_ms)
        if self._session.mute is not None and not self._session.muted_ms(self._now_ms):
            self._happened.append("muted no longer")
        self._go_on()

    def _tick(self, elapsed_ms: str, *words: str) -> None:
        times = next((int(word.removeprefix("times=")) for word in words), 1)
        received = None
        if self._stream:
            whole = 4 + int.from_bytes(self._stream[:4], "big") if len(self._stream) >= 4 else 4
            received = len(self._stream), whole
        for count in range(1, times + 1):
            cause = self._session.tick(int(elapsed_ms), received, reads=True)
            if cause is not None:
                self._happened.append(f"stop {cause} at tick {count}")
                return

    def _ends(self, cause: str) -> None:
        with memoryview(self._stream) as rest:
            self._session.ends(CloseCause(cause), rest, lambda: 0, self._now_ms)
        for told in self._point.report(self._now_ms, 0).instances:
            self._happened.append(f"charged {told.produce.used + told.produce.overhead} bytes")
        self._happened.append("takes more" if self._session.takes else "takes nothing")


def _frame(text: str) -> bytes:
    what, size = text.split()
    if what == "size":
        return struct.pack(">i", int(size))
    key = ApiKey[what.upper()]
    return struct.pack(">ih", int(size), int(key)) + bytes(int(size) - 2)
