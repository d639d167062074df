"""From a client's bytes to requests: frames are cut, hot ones edited in place, the others collected whole."""

import struct
from typing import Final, NamedTuple, TypeAlias

from gateway.apis import APIS, BEFORE_LOGIN, LEGACY, Mode, Row, handler_named
from gateway.causes import DisconnectCause
from gateway.session.call import Call, Later, Outcome, Pending
from gateway.session.conversation import Conversation
from gateway.session.injection import hold_back_ms, let_go
from gateway.session.mapped import decoding_work, settle, take_request
from gateway.session.ordering import UNANSWERED_MAX, Exchange, Trace
from gateway.stops import ConnectionStop
from traffic.relayed import Place
from wire.api_table import ApiKey
from wire.edits import (
    PRODUCE_BY_ID_FROM,
    FrameEditor,
    edit_produce_request,
    only_topic_id,
    produce_request_editor,
)
from wire.faults import ForeignName, NameFault
from wire.framing import Buffer

_HEAD: Final = struct.Struct(">ihhi")
"""Length prefix, api key, api version, correlation id."""
_I32: Final = struct.Struct(">i")
_HEAD_BYTES: Final = _HEAD.size
_SIZE_MIN: Final = 10
"""Header v1 with a null client id."""
_TLS_HANDSHAKE: Final = 0x1603
"""A record of TLS that begins a handshake, taken for a length: more than any request has."""
WORK_AT_ONCE: Final = 128
"""Requests of one connection before others get their turn: one each, and more for decoded ones.
A megabyte of tiny requests takes a second."""
ANSWERS_AT_ONCE_BYTES: Final = 64 * 1024
"""Bytes of our own answers before the client's socket is asked whether it takes them."""

_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)
_LOOK_AGAIN_MS: Final = 500
"""A request that waits for its instance's bucket is looked at so often: a lease may come."""
_FETCH_LOOK_MS: Final = 100
"""So often where it is the answer to another Fetch that is waited for."""
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_SASL_AUTHENTICATE: Final = int(ApiKey.SASL_AUTHENTICATE)
_RAW_VERSION: Final = 0
_LOOKED_AT_BYTES: Final = 4 * 1024
"""So far into a Produce its only topic's id is looked for again when more comes."""
_BEFORE_LOGIN: Final = frozenset(api_key for api_key, _ in BEFORE_LOGIN)


class HeldBack(NamedTuple):
    """An injected fault, or a bucket of the gateway's own, keeps the next request waiting."""

    wait_ms: int


Waits: TypeAlias = Pending | HeldBack
"""Why no request is taken: the host lets it be over, with `settle` or `let_go`."""


class Requests:
    """The request half of one session."""

    __slots__ = (
        "_api_version",
        "_by_id",
        "_collected",
        "_conversation",
        "_missing",
        "_raw",
        "_trace",
        "bytes_in",
        "decoding_work",
        "editor",
        "frame_bytes",
        "frames",
        "stash",
        "waiting_since_ns",
        "waits",
    )

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self.editor: FrameEditor | None = None
        """The editor of the frame that is streamed; to be asked, not changed."""
        self._collected: bytearray | None = None
        self._missing = 0
        """Bytes of the current frame that have not arrived, while it is streamed or collected."""
        self.frame_bytes = 0
        """Size of the frame that is streamed or collected, its length prefix included."""
        self._api_version = 0
        self._by_id = False
        """Whether the frame that is collected is a Produce of topic ids: it may go up once they are known."""
        self._raw = False
        """Whether the frame that is collected is one of a login and not Kafka's: first its length."""
        self.bytes_in = 0
        """What the client has sent, as the host counts it."""
        self.frames = 0
        """Requests begun."""
        self.decoding_work = 0
        """Counts what requests have cost beyond one each."""
        self.stash: bytes = b""
        """Bytes that are less than a frame's head, put in front of the next read."""
        self.waits: Waits | None = None
        """Nothing is taken meanwhile."""
        self.waiting_since_ns = 0
        """Since when requests that are here wait for the instance's turn, the host says; 0: they do not."""
        self._trace: Trace | None = None
        """The trace of the frame that is taken, where it is one of the sampled."""

    @property
    def in_frame(self) -> bool:
        """Whether the client owes us the rest of a frame."""
        return self._missing > 0 or bool(self.stash)

    @property
    def is_held_back(self) -> bool:
        """Whether the next request is kept waiting, which is not its client's doing."""
        return isinstance(self.waits, HeldBack)

    def receive(self, chunk: memoryview, now_ns: int, up: list[Buffer], down: list[Buffer]) -> int:
        """Handle a chunk as far as may be now. `up` gets what goes to the broker, slices of the chunk among
        it, `down` our own answers, which are to be sent also when this raises.

        The answer is where to go on later: behind a request that waits, or that filled the reply queue or
        this connection's turn.
        Raises: ConnectionStop, MalformedFrame, NameFault.
        """
        assert self.waits is None, "a request waits, and what is behind it with it"
        conversation = self._conversation
        conversation.now_ns = now_ns
        at, end = 0, len(chunk)
        last_work = self.frames + self.decoding_work + WORK_AT_ONCE
        while at < end:
            if self._missing:
                take = min(self._missing, end - at)
                at = self._continue(chunk, at, at + take, up, down)
            elif end - at < _HEAD_BYTES:
                if end - at >= _I32.size:
                    self._check_size(_I32.unpack_from(chunk, at)[0])
                self.stash = bytes(chunk[at:])
                return end
            else:
                at = self._begin(chunk, at, up, down)
            if at < end and (
                self.waits is not None
                or self.frames + self.decoding_work >= last_work
                or len(conversation.queue.waiting or ()) >= UNANSWERED_MAX
                or (down and sum(map(len, down)) >= ANSWERS_AT_ONCE_BYTES)
            ):
                break
        return at

    def _check_size(self, size: int) -> None:
        """Refuse a frame by its length alone: behind an empty one nothing more may ever come."""
        if size < _SIZE_MIN:
            raise ConnectionStop(DisconnectCause.BAD_FRAME_LENGTH, f"a frame of {size} bytes")
        if size >> 16 == _TLS_HANDSHAKE:
            raise ConnectionStop(DisconnectCause.TLS_TO_PLAIN)
        if size > self._conversation.instance.request_bytes_max:
            raise ConnectionStop(DisconnectCause.REQUEST_TOO_LARGE, f"a frame of {size} bytes")

    def _begin(self, chunk: memoryview, at: int, up: list[Buffer], down: list[Buffer]) -> int:
        """Start a frame at `at`; the answer is where to go on."""
        size, api_key, api_version, _ = _HEAD.unpack_from(chunk, at)
        conversation = self._conversation
        instance = conversation.instance
        if not _SIZE_MIN <= size <= instance.request_bytes_max:
            self._check_size(size)
        row = conversation.rows.get((api_key, api_version)) or self._row_of_others(api_key, api_version)
        if instance.faults is not None or conversation.place is not None or conversation.muted_until_ms:
            wait_ms = self._wait_ms(api_key, 4 + size, len(chunk) - at)
            if wait_ms:
                self.waits = HeldBack(wait_ms)
                return at
        self.frames += 1
        instance.requests[api_key] += 1
        if self.waiting_since_ns:
            conversation.host.waited(api_key, conversation.now_ns - self.waiting_since_ns)
            self.waiting_since_ns = 0
        if conversation.traces is not None:
            self._trace = conversation.traces.begin(chunk[at : at + 4 + size])
        behind: int = at + 4 + size
        if behind <= len(chunk):
            self._whole(row, chunk[at:behind], up, down)
            return behind
        passes = api_key == _PRODUCE and instance.passes_produce
        self._api_version = api_version
        self._missing = self.frame_bytes = 4 + size
        if passes and self._may_stream(api_version, chunk[at:]):
            self._begin_stream(up)
        else:
            _check_frame_bytes(row, size)
            self._by_id = passes
            self._collected = bytearray()
        return at

    def _begin_stream(self, up: list[Buffer]) -> FrameEditor:
        conversation = self._conversation
        instance = conversation.instance
        self.editor = produce_request_editor(
            self._api_version, instance.scope, conversation.client_id, instance.topic_ids.known
        )
        if self._trace is not None:
            self._trace.forwarded(up, takes_traces=conversation.takes_traces)
        return self.editor

    def _may_stream(self, api_version: int, begun: memoryview) -> bool:
        """Whether a Produce may go up before it is whole: all that can be wrong with its topics is known."""
        if api_version < PRODUCE_BY_ID_FROM:
            return True
        topic_id = only_topic_id(begun)
        return topic_id is not None and topic_id in self._conversation.instance.topic_ids.known

    def _wait_ms(self, api_key: int, frame_bytes: int, read_bytes: int) -> int:
        """How long the next request is kept waiting, with the `read_bytes` that are here."""
        conversation = self._conversation
        if conversation.muted_until_ms:
            wait_ms = conversation.muted_until_ms - conversation.host.now_ms()
            if wait_ms > 0:
                return wait_ms
            conversation.muted_until_ms = 0
        if conversation.place is not None:
            wait_ms = self._payment_wait_ms(conversation.place, api_key, frame_bytes)
            if wait_ms:
                return wait_ms
        if conversation.instance.faults is None:
            return 0
        return hold_back_ms(conversation, api_key, self.bytes_in, read_bytes)

    def _payment_wait_ms(self, place: Place, api_key: int, frame_bytes: int) -> int:
        """How long until what was carried before is paid."""
        conversation = self._conversation
        if api_key == _PRODUCE:
            return min(_LOOK_AGAIN_MS, place.produce_wait_ms(frame_bytes, conversation.host.now_ms()))
        if api_key != _FETCH:
            return 0
        if any(each.api_key == _FETCH for each in conversation.queue.waiting or ()):
            return _FETCH_LOOK_MS  # what the answers under way cost is not known yet
        return min(_LOOK_AGAIN_MS, place.fetch_wait_ms(conversation.host.now_ms()))

    def _continue(self, chunk: memoryview, at: int, behind: int, up: list[Buffer], down: list[Buffer]) -> int:
        """Take bytes `at:behind` of the current frame."""
        self._missing -= behind - at
        editor = self.editor
        if editor is not None:
            self._stream(editor, chunk[at:behind], up)
            return behind
        collected = self._collected
        assert collected is not None
        if self._by_id and self._missing and self._streams_after_all(collected, chunk[at:behind], up):
            return behind
        self._conversation.instance.collect(behind - at)
        collected += chunk[at:behind]
        if not self._missing:
            if self._raw:
                self._take_raw(collected, down)
                return behind
            self._collected = None
            self._conversation.instance.release(len(collected))
            row = APIS[_HEAD.unpack_from(collected)[1]]
            self._whole(row, memoryview(collected), up, down)
        return behind

    def _streams_after_all(self, collected: bytearray, piece: memoryview, up: list[Buffer]) -> bool:
        """Pass on what was collected of a Produce of topic ids, and `piece` behind it: the id of its only
        topic is here now, or the budget has no room. Then an unknown id behind known ones ends the
        connection.

        Raises: ConnectionStop when the budget is spent and an id that is not known is among those here.
        """
        instance = self._conversation.instance
        if instance.has_room(len(piece)):
            if len(collected) > _LOOKED_AT_BYTES:
                return False
            begun = bytes(collected) + bytes(piece[:_LOOKED_AT_BYTES])
            if not self._may_stream(self._api_version, memoryview(begun)):
                return False
        self._collected = None
        instance.release(len(collected))
        collected += piece
        try:
            self._stream(self._begin_stream(up), memoryview(collected), up)
        except ForeignName as fault:
            raise ConnectionStop(DisconnectCause.BUFFER_BUDGET) from fault
        return True

    def _expect_raw(self) -> None:
        self._raw = True
        self._by_id = False
        self._collected = bytearray()
        self._missing = self.frame_bytes = _I32.size

    def _take_raw(self, collected: bytearray, down: list[Buffer]) -> None:
        """The length of a message of a login is here, or all of it."""
        size: int = _I32.unpack_from(collected)[0]
        row = APIS[_SASL_AUTHENTICATE]
        if len(collected) == _I32.size and size != 0:
            if size < 0:
                raise ConnectionStop(DisconnectCause.BAD_FRAME_LENGTH, f"a message of {size} bytes")
            _check_frame_bytes(row, size)
            self._missing = size
            self.frame_bytes = _I32.size + size
            return
        conversation = self._conversation
        login, handler = conversation.login, handler_named(row.handler)
        assert login is not None and handler is not None
        self._collected, self._raw = None, False
        conversation.instance.release(len(collected))
        self.decoding_work += decoding_work(len(collected))
        exchange = Exchange(_SASL_AUTHENTICATE, _RAW_VERSION, 0, conversation.now_ns)
        outcome = handler.take_raw(Call(conversation, exchange), login, bytes(collected[_I32.size :]))
        if isinstance(outcome, Later):
            self.waits = Pending(exchange, b"", outcome)
            return
        down.append(_I32.pack(len(outcome.body)) + outcome.body)
        conversation.host.answered_here(exchange)
        if login.takes_raw:
            self._expect_raw()

    def opaque_bytes(self) -> int:
        """How many of the next bytes go up as they are, whatever they are."""
        return 0 if self.editor is None else self.editor.opaque_bytes

    def pass_opaque(self, size: int) -> None:
        """So many of them were spliced."""
        assert self.editor is not None
        self.editor.pass_opaque(size)
        self._missing -= size

    def _stream(self, editor: FrameEditor, piece: memoryview, up: list[Buffer]) -> None:
        if len(piece) <= editor.opaque_bytes:
            editor.pass_opaque(len(piece))
            up.append(piece)
            return
        buffers, used = editor.feed(piece)
        assert used == len(piece) and editor.done == (self._missing == 0)
        up += buffers
        if editor.done:
            self.editor = None
            conversation = self._conversation
            if conversation.place is not None:
                conversation.place.produced(self.frame_bytes, conversation.host.now_ms())
            if editor.facts["acks"]:
                conversation.queue.forwarded(
                    Exchange(
                        _PRODUCE, self._api_version, editor.correlation_id, conversation.now_ns, self._trace
                    )
                )
            else:
                self._sent_unanswered()

    def _whole(self, row: Row, frame: memoryview, up: list[Buffer], down: list[Buffer]) -> None:
        """Handle one complete frame, length prefix included."""
        conversation = self._conversation
        if row.mode is Mode.PRODUCE and conversation.place is not None:
            conversation.place.produced(len(frame), conversation.host.now_ms())
        if row.mode is Mode.PRODUCE and conversation.instance.passes_produce and self._passes_on(frame, up):
            return
        _check_frame_bytes(row, len(frame) - 4)
        self.decoding_work += decoding_work(len(frame))
        self.waits = take_request(conversation, row, frame, self._trace, up, down)
        if conversation.host.turn_is_over():
            self.decoding_work += WORK_AT_ONCE  # others have their turn now

    def _passes_on(self, frame: memoryview, up: list[Buffer]) -> bool:
        """Pass one whole Produce on as it came, but for names. False: its handler answers, or asks first."""
        conversation = self._conversation
        instance = conversation.instance
        try:
            edit = edit_produce_request(frame, instance.scope, conversation.client_id)
        except NameFault:
            return False
        _, _, api_version, correlation_id = _HEAD.unpack_from(frame)
        if api_version >= PRODUCE_BY_ID_FROM and not instance.topic_ids.knows(edit.topics):
            return False
        if self._trace is not None:
            self._trace.forwarded(up, takes_traces=conversation.takes_traces)
        if edit.acks:
            conversation.queue.forwarded(
                Exchange(_PRODUCE, api_version, correlation_id, conversation.now_ns, self._trace)
            )
        else:
            self._sent_unanswered()
        up += edit.buffers
        return True

    def _sent_unanswered(self) -> None:
        """A Produce request with acks=0 went up."""
        self._conversation.sent_unanswered = True
        if self._trace is not None:
            self._trace.answered()

    def _row_of_others(self, api_key: int, api_version: int) -> Row:
        """Old versions where the instance has them. ApiVersions is answered in any version.

        Raises: ConnectionStop for everything else.
        """
        login = self._conversation.login
        if login is not None and self._conversation.rows is BEFORE_LOGIN and api_key not in _BEFORE_LOGIN:
            expired = login.login is not None and not login.is_under_way
            cause = DisconnectCause.LOGIN_EXPIRED if expired else DisconnectCause.NOT_AUTHENTICATED
            raise ConnectionStop(cause, f"api key {api_key}")
        legacy = LEGACY.get((api_key, api_version))
        if legacy is not None and self._conversation.instance.spec.legacy_clients:
            return legacy
        row = APIS.get(api_key)
        if row is None:
            raise ConnectionStop(DisconnectCause.UNSUPPORTED_API, f"api key {api_key}")
        if api_key != _API_VERSIONS:
            raise ConnectionStop(DisconnectCause.UNSUPPORTED_VERSION, f"{row.key.name} v{api_version}")
        return row

    def settle(self, outcome: Outcome, up: list[Buffer], down: list[Buffer]) -> None:
        """The work of the request that waits is done: it goes up or is answered, and others may follow; or
        it goes on waiting for another thing.

        Raises: ConnectionStop, MalformedFrame, NameFault.
        """
        pending = self.waits
        assert isinstance(pending, Pending)
        self.waits = settle(self._conversation, pending.exchange, pending.head, outcome, up, down)
        login = self._conversation.login
        if login is not None and login.takes_raw:
            self._expect_raw()

    def let_go(self) -> None:
        """What was held back need not wait any more."""
        assert isinstance(self.waits, HeldBack)
        self.waits = None
        if self._conversation.fault_marks is not None:
            let_go(self._conversation, self.bytes_in)

    def discard(self) -> None:
        """The connection is gone."""
        instance = self._conversation.instance
        place = self._conversation.place
        if place is not None:
            carried_bytes = 0 if self.editor is None else self.frame_bytes - self._missing
            place.cut(carried_bytes, self._conversation.host.now_ms())
        if self._collected:
            instance.release(len(self._collected))
        self._collected = self.editor = None
        self.stash = b""
        if self._conversation.fault_marks is not None:
            self._conversation.fault_marks.release(instance)
        if self._conversation.client_instance_id is not None:
            instance.client_metrics.disconnected(self._conversation.client_instance_id, self._conversation)


def _check_frame_bytes(row: Row, size: int) -> None:
    """Refuse what would cost more to decode than a request of this API may."""
    most = row.bound.frame_bytes_max
    if most is not None and size > most:
        raise ConnectionStop(DisconnectCause.REQUEST_TOO_LARGE, f"{row.key.name} of {size} bytes")
