"""The language of the transcripts of a gateway's session: bytes go in, what they become comes out.

    commands                                       output
    session [login] [listed] [max=BYTES]           up     a frame that goes to the broker, or how much of it
      (`listed`: topic secret is another's)        down   one that goes to the client
    client REQUEST [+ REQUEST ...] [bytes=A:B]     waits  work that comes before any other request
      produce 7 orders/100 [acks=0]                opaque so many of the client's or broker's next bytes may
      fetch 11 orders | metadata 4 orders                 pass unseen
      versions 0 | sasl 1 | create 4 new           stop   the connection is to be closed, and why
      raw 0000000a... | more (the last line's)     sides  the states, where they have moved
    client ends | broker ends | connects | tells | closes
    broker replies [N] [bytes=A:B] | broker raw 00...  (to the oldest N frames that went up)
    broker logs-in | settle | splice client | splice broker  (all that may pass)

Requests of a session are numbered in order. `bytes=A:B` sends that part of what the line says.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from contracts.tracing import TAKES_TRACES
from gateway.session.call import Pending
from gateway.stops import ConnectionStop
from tests.unit.gateway.session_host import (
    Frames,
    SessionHost,
    brokers_reply,
    decoded_request,
    served_instance,
)
from wire.api_table import ApiKey
from wire.build import build, response
from wire.codec import decode_response, framed_request, framed_response, request_class
from wire.faults import MalformedFrame, NameFault

_LISTED: Final = {"secret": ("10.0.0.0/8",)}
_NAMED: Final = {
    "produce": ApiKey.PRODUCE,
    "fetch": ApiKey.FETCH,
    "metadata": ApiKey.METADATA,
    "versions": ApiKey.API_VERSIONS,
    "sasl": ApiKey.SASL_HANDSHAKE,
    "create": ApiKey.CREATE_TOPICS,
}
_HEAD: Final = struct.Struct(">ihhi")
_LOGIN_REPLIES: Final = framed_response(response(ApiKey.SASL_HANDSHAKE, 1), 1) + framed_response(
    response(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=TAKES_TRACES), 2
)


class Story:
    """A session and the commands of a transcript."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self, *options: str) -> None:
        maxima = [int(each.removeprefix("max=")) for each in options if each.startswith("max=")]
        served = served_instance(_LISTED if "listed" in options else None, *maxima)
        self._host = SessionHost(served, 2 if "login" in options else 0)
        self._asked: dict[int, tuple[int, int]] = {}
        self._up, self._down = Frames(), Frames()
        self._seen_up = self._seen_down = 0
        self._unanswered: list[bytes] = []
        self._sides = self._states()
        self._waited = False
        self._last = b""

    def run(self, command: str) -> str:
        """What it makes happen."""
        verb, *words = command.split()
        stopped = []
        try:
            self._verbs()[verb](*words)
        except ConnectionStop as stop:
            stopped = [f"stop {stop.cause}" + (f": {stop.detail}" if stop.detail else "")]
        except (MalformedFrame, NameFault) as fault:
            stopped = [f"stop {type(fault).__name__}: {fault}"]
        return "\n".join([*self._happened(), *stopped]) or "nothing"

    def _verbs(self) -> dict[str, Callable[..., None]]:
        session = self._host.session
        return {
            "session": self._begin,
            "client": self._client,
            "broker": self._broker,
            "connects": session.connects,
            "tells": lambda: self._told(session.tells_upstream()),
            "closes": session.closes,
            "settle": self._settle,
            "splice": self._splice,
        }

    # -- commands ------------------------------------------------------------------------------------

    def _client(self, *words: str) -> None:
        if words == ("ends",):
            self._host.session.client_ends(now_ms=0)
            return
        plain = [word for word in words if not word.startswith("bytes=")]
        requests = " ".join(plain).split(" + ")
        if requests != ["more"]:
            self._last = b"".join(map(self._request, requests))
        data = self._last
        self._host.client_sends(_part(data, words), settles=False)

    def _request(self, text: str) -> bytes:
        what, *words = text.split()
        if what == "raw":
            frame = bytes.fromhex("".join(words))
            if len(frame) >= _HEAD.size:
                _, key, version, number = _HEAD.unpack_from(frame)
                self._asked[number] = (key, version)
            return frame
        key, version = _NAMED[what], int(words[0])
        known = _KNOWN[what](*words[1:])
        number = len(self._asked) + 1
        self._asked[number] = (int(key), version)
        return framed_request(build(request_class(key, version), known), number, "c")

    def _broker(self, *words: str) -> None:
        if words == ("ends",):
            self._host.session.upstream_ends(now_ms=0)
        elif words[0] == "logs-in":
            self._host.broker_sends(_part(_LOGIN_REPLIES, words))
        elif words[0] == "raw":
            self._host.broker_sends(bytes.fromhex("".join(words[1:])))
        else:
            count = int(words[1]) if words[1:2] and words[1].isdigit() else 1
            replies = b"".join(map(brokers_reply, self._unanswered[:count]))
            self._host.broker_sends(_part(replies, words))
            if not any(word.startswith("bytes=") and not word.endswith(":") for word in words):
                del self._unanswered[:count]

    def _settle(self) -> None:
        assert self._host.settle(), "something waits"
        self._host.client_sends(b"", settles=False)

    @staticmethod
    def _told(is_told: bool) -> None:
        assert is_told, "it is to be told"

    def _splice(self, whose: str) -> None:
        """The stream's other end gets as many bytes as may pass; which does not matter to the session."""
        session = self._host.session
        half = session.requests if whose == "client" else session.replies
        stream = self._host.up if whose == "client" else self._host.down
        stream += bytes(half.opaque_bytes())
        half.pass_opaque(half.opaque_bytes())

    # -- what happened -------------------------------------------------------------------------------

    def _happened(self) -> list[str]:
        host, lines = self._host, []
        went, self._seen_up = bytes(host.up[self._seen_up :]), len(host.up)
        for frame in self._up.take(went):
            lines.append(f"up {_told_request(frame)}")
            self._unanswered += [frame] if brokers_reply(frame) else []
        if went and self._up.missing:
            lines.append(f"up {self._up.missing} bytes of a frame")
        came, self._seen_down = bytes(host.down[self._seen_down :]), len(host.down)
        lines += [f"down {self._told_reply(frame)}" for frame in self._down.take(came)]
        if came and self._down.missing:
            lines.append(f"down {self._down.missing} bytes of a frame")
        return lines + self._standing()

    def _standing(self) -> list[str]:
        session, lines = self._host.session, []
        waits = session.requests.waits
        if isinstance(waits, Pending) and not self._waited:
            lines.append(f"waits {ApiKey(waits.exchange.api_key).name.lower()}")
        self._waited = waits is not None
        for whose, half in (("client", session.requests), ("broker", session.replies)):
            if opaque := half.opaque_bytes():
                lines.append(f"opaque {whose} {opaque}")
        if (states := self._states()) != self._sides:
            lines.append(f"sides client {states[0]}, upstream {states[1]}")
            self._sides = states
        return lines

    def _states(self) -> tuple[str, str]:
        sides = self._host.session.sides
        return sides.client.value, sides.upstream.value

    def _told_reply(self, frame: bytes) -> str:
        (number,) = struct.unpack_from(">i", frame)
        key, version = self._asked[number]
        if key == ApiKey.API_VERSIONS and version > 3:
            version = 0
        _, reply = decode_response(frame, key, version)
        return f"{ApiKey(key).name.lower()} {version} #{number}{_names(reply)}{_error(reply)}"


def _told_request(frame: bytes) -> str:
    key, version, number, request = decoded_request(frame)
    return f"{ApiKey(key).name.lower()} {version} #{number}{_names(request)}"


def _names(message: Any) -> str:
    fields = ("topic_data", "topics", "responses")
    entries = next((found for field in fields if (found := getattr(message, field, None))), ())
    told = [f"{getattr(one, 'name', None) or one.topic}{_errors_below(one)}" for one in entries]
    return " " + ", ".join(told) if told else ""


def _errors_below(topic: Any) -> str:
    below = [
        one
        for field in ("partition_responses", "partitions")
        for one in getattr(topic, field, None) or ()
        if not isinstance(one, int)
    ]
    return _error(topic) or next((error for one in below if (error := _error(one))), "")


def _error(message: Any) -> str:
    code = getattr(message, "error_code", 0)
    return f" {code.name}" if code else ""


def _part(data: bytes, words: tuple[str, ...]) -> bytes:
    for word in words:
        if word.startswith("bytes="):
            begin, end = word.removeprefix("bytes=").split(":")
            return data[int(begin or 0) : int(end) if end else None]
    return data


def _produce(topic: str, acks: str = "acks=1") -> dict[str, Any]:
    name, _, size = topic.partition("/")
    partition = {"index": 0, "records": b"r" * int(size)}
    topics = [{"name": name, "partition_data": [partition]}]
    return {"acks": int(acks.removeprefix("acks=")), "topic_data": topics}


def _fetch(*names: str) -> dict[str, Any]:
    topics = [{"topic": name, "partitions": [{"partition": 0}]} for name in names]
    return {"topics": topics, "session_epoch": -1}


_KNOWN: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "produce": _produce,
    "fetch": _fetch,
    "metadata": lambda *names: {"topics": [{"name": name} for name in names] or None},
    "versions": lambda: {"client_software_name": "x", "client_software_version": "1"},
    "sasl": lambda: {"mechanism": "PLAIN"},
    "create": lambda name: {"topics": [{"name": name, "num_partitions": 2, "replication_factor": -1}]},
}
