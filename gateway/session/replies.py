"""From the backend's bytes to replies: matched with their requests in order, names taken back, passed on."""

import struct
from typing import Final

from contracts.quota import Direction
from gateway.apis import APIS, Mode
from gateway.causes import DisconnectCause
from gateway.session.conversation import Conversation
from gateway.session.login import check_login_reply
from gateway.session.mapped import decoding_work, kept_reply, mapped_reply
from gateway.session.ordering import Exchange
from gateway.session.states import Event
from gateway.stops import ConnectionStop
from traffic.engine_time import of_answer_us, of_request
from traffic.relayed import RelayedFlows
from traffic.turns import Hold
from wire.api_table import ApiKey
from wire.edits import FrameEditor, edit_fetch_response, edit_produce_response, fetch_response_editor
from wire.framing import Buffer
from wire.throttle_time import HEAD_BYTES_MAX, raise_in, told_in

_HEAD: Final = struct.Struct(">ii")
"""Length prefix, correlation id."""
_HEAD_BYTES: Final = _HEAD.size
_SIZE_MIN: Final = 4
WORK_AT_ONCE: Final = 128
"""Replies of one connection before others get their turn: one each, and more for decoded ones."""
_KEPT_WORK_BYTES: Final = 2048
COLLECTED_BYTES_MAX: Final = 128 * 1024 * 1024
"""One reply that has to be decoded: listings of a cluster with very many partitions."""
_FETCH: Final = int(ApiKey.FETCH)


class Replies:
    """The reply half of one session."""

    __slots__ = ("_collected", "_conversation", "_missing", "editor", "login_replies_due", "stash", "work")

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self.editor: FrameEditor | None = None
        """The editor of the frame that is streamed; to be asked, not changed."""
        self._collected: bytearray | None = None
        self._missing = 0
        self.login_replies_due = 0
        """Replies to our own login that come before any of the client's."""
        self.stash: bytes = b""
        self.work = 0
        """Counts what replies have cost, in units of one that is edited in place."""

    def receive(self, chunk: memoryview, down: list[Buffer], answered: list[Exchange]) -> int:
        """Handle a chunk; `down` gets what goes to the client, slices of the chunk among it, `answered` the
        requests whose replies are whole with it.

        The answer is where to go on later, when this connection's turn comes again.
        Raises: ConnectionStop, MalformedFrame.
        """
        at, end = 0, len(chunk)
        last_work = self.work + WORK_AT_ONCE
        while at < end and self.work < last_work:
            if self._missing:
                take = min(self._missing, end - at)
                self._continue(chunk[at : at + take], down, answered)
                at += take
            elif end - at < HEAD_BYTES_MAX and _is_cut(chunk, at):
                self.stash = bytes(chunk[at:])
                return end
            else:
                at = self._begin(chunk, at, down, answered)
        return at

    def _begin(self, chunk: memoryview, at: int, down: list[Buffer], answered: list[Exchange]) -> int:
        size, correlation_id = _HEAD.unpack_from(chunk, at)
        if size < _SIZE_MIN:
            raise ConnectionStop(DisconnectCause.UPSTREAM_MALFORMED, f"a reply of {size} bytes")
        conversation = self._conversation
        exchange = None
        if not self.login_replies_due:
            exchange = conversation.queue.head()
            if exchange is None or exchange.correlation_id != correlation_id:
                raise ConnectionStop(
                    DisconnectCause.UPSTREAM_MALFORMED, f"nobody waits for reply {correlation_id}"
                )
        behind: int = at + 4 + size
        if behind <= len(chunk):
            self._whole(exchange, chunk[at:behind], down, answered)
            return behind
        if exchange is not None and exchange.api_key == _FETCH:
            instance = conversation.instance
            if instance.turn.hold is not Hold.NONE or instance.faults is not None:
                self._tell_throttle(exchange, chunk[at:])
            if conversation.relay is not None:
                self._note_throttle(conversation.relay, exchange, chunk[at:])
            if exchange.trace is not None:
                exchange.trace.replied()
            self.editor = fetch_response_editor(
                exchange.api_version, instance.scope, exchange.notes, instance.topic_ids.known
            )
        elif size > COLLECTED_BYTES_MAX:
            raise ConnectionStop(DisconnectCause.UPSTREAM_MALFORMED, f"a reply of {size} bytes")
        else:
            self._collected = bytearray()
        self._missing = 4 + size
        return at

    def opaque_bytes(self) -> int:
        """How many of the next bytes go down as they are, whatever they are."""
        return 0 if self.editor is None else self.editor.opaque_bytes

    def pass_opaque(self, size: int) -> None:
        """So many of them were spliced."""
        assert self.editor is not None
        self.editor.pass_opaque(size)
        self._missing -= size

    def _continue(self, piece: memoryview, down: list[Buffer], answered: list[Exchange]) -> None:
        self._missing -= len(piece)
        editor = self.editor
        queue = self._conversation.queue
        if editor is None:
            assert self._collected is not None
            self._collected += piece
            if not self._missing:
                frame, self._collected = memoryview(self._collected), None
                self._whole(None if self.login_replies_due else queue.head(), frame, down, answered)
            return
        if len(piece) <= editor.opaque_bytes:
            editor.pass_opaque(len(piece))
            down.append(piece)
            return
        head_was_done = editor.head_done
        buffers, used = editor.feed(piece)
        assert used == len(piece) and editor.done == (self._missing == 0)
        if editor.head_done and not head_was_done:
            self._session_begins(editor.facts.get("session_id", 0))
            self._conversation.tells_to_wait(editor.facts.get("throttle_time", 0))
            self._count_fetched(queue.head(), editor.frame_bytes + editor.grown)
        down += buffers
        if editor.done:
            self.editor = None
            exchange = queue.head()
            assert exchange is not None, "its reply was streamed"
            self._finish_head(exchange, down, answered)

    def _whole(
        self, exchange: Exchange | None, frame: memoryview, down: list[Buffer], answered: list[Exchange]
    ) -> None:
        """Handle one complete frame; without an exchange it answers our own login."""
        if exchange is None:
            self._login_answered(frame)
            return
        conversation = self._conversation
        self.work += 1
        if exchange.engine_us:
            assert conversation.place is not None, "nobody else has a room"
            conversation.place.engine_left(exchange.engine_us)
        if exchange.taker is not None:
            exchange.taker(bytes(frame[_HEAD_BYTES:]))
            down += conversation.queue.finish_head()
            return
        mode = APIS[exchange.api_key].mode
        if exchange.handler is not None or mode is Mode.MAPPED:
            if conversation.relay is not None and mode is Mode.MAPPED:
                self._note_engine(conversation.relay, exchange, frame)
            down.append(self._mapped(exchange, frame))
            self._finish_head(exchange, down, answered)
            return
        instance = conversation.instance
        if instance.turn.hold is not Hold.NONE or instance.faults is not None:
            self._tell_throttle(exchange, frame)
        if conversation.relay is not None:
            self._note_throttle(conversation.relay, exchange, frame)
        if mode is Mode.FETCH:
            fetched = edit_fetch_response(
                frame, exchange.api_version, instance.scope, exchange.notes, instance.topic_ids.known
            )
            self._session_begins(fetched.session_id)
            if conversation.relay is not None:
                self._count_fetched(exchange, sum(map(len, fetched.buffers)))
            down += fetched.buffers
            throttle_ms = fetched.throttle_time_ms
        else:
            assert mode is Mode.PRODUCE
            produced = edit_produce_response(
                frame, exchange.api_version, instance.scope, instance.topic_ids.known
            )
            down += produced.buffers
            throttle_ms = produced.throttle_time_ms
        if throttle_ms:
            conversation.tells_to_wait(throttle_ms)
        self._finish_head(exchange, down, answered)

    def _login_answered(self, frame: memoryview) -> None:
        conversation = self._conversation
        conversation.takes_traces = check_login_reply(frame, self.login_replies_due)
        self.login_replies_due -= 1
        if not self.login_replies_due:
            conversation.sides.upstream_moves(Event.LOGS_IN)

    def _finish_head(self, exchange: Exchange, down: list[Buffer], answered: list[Exchange]) -> None:
        """The reply to the oldest request was passed on."""
        answered.append(exchange)
        if exchange.trace is not None:
            exchange.trace.answered()
        down += self._conversation.queue.finish_head()

    def _mapped(self, exchange: Exchange, frame: memoryview) -> bytes:
        conversation = self._conversation
        kept = kept_reply(conversation, exchange, frame)
        if kept is not None:
            self.work += len(kept) // _KEPT_WORK_BYTES
            return kept
        self.work += decoding_work(len(frame))
        answer = mapped_reply(conversation, exchange, frame)
        if conversation.host.turn_is_over():
            self.work += WORK_AT_ONCE  # others have their turn now
        return answer

    def _tell_throttle(self, exchange: Exchange, frame: memoryview) -> None:
        """The instance is in debt, or its tenant wants to be told so: a reply says it that is passed on as it
        is."""
        throttle_ms = self._conversation.host.throttle_ms(exchange.api_key)
        raise_in(frame, exchange.api_key, exchange.api_version, throttle_ms)

    def _note_throttle(self, relay: RelayedFlows, exchange: Exchange, frame: memoryview) -> None:
        """A broker that is not ours says how long it throttles: its time or ours is told, the longer one."""
        direction = Direction.CONSUME if exchange.api_key == _FETCH else Direction.PRODUCE
        now_ms = self._conversation.host.now_ms()
        throttle_ms = told_in(frame, exchange.api_key, exchange.api_version)
        if throttle_ms:
            relay.broker_throttles(direction, throttle_ms, now_ms)
        raise_in(frame, exchange.api_key, exchange.api_version, relay.told_ms(direction, now_ms))

    def _note_engine(self, relay: RelayedFlows, exchange: Exchange, frame: memoryview) -> None:
        """What else is asked of a broker costs by its answer, and is throttled for request time alone."""
        answer_us = of_answer_us(len(frame))
        relay.answers(answer_us)
        if exchange.engine_us:
            cost_us = of_request(exchange.api_key).threads_us + answer_us
            relay.engine_room.answered(exchange.api_key, cost_us)
        throttle_ms = told_in(frame, exchange.api_key, exchange.api_version)
        if throttle_ms:
            relay.broker_throttles(Direction.CPU, throttle_ms, self._conversation.host.now_ms())

    def _count_fetched(self, exchange: Exchange | None, size_bytes: int) -> None:
        """So much of an answer goes to the client; what was added here is charged where it was added."""
        place = self._conversation.place
        if place is not None and exchange is not None:
            added = 0 if exchange.notes is None else len(exchange.notes.encoded)
            place.fetched(size_bytes - added, self._conversation.host.now_ms())

    def _session_begins(self, session_id: int) -> None:
        """The backend has given this connection a fetch session."""
        if session_id:
            if self._conversation.fetch_sessions is None:
                self._conversation.fetch_sessions = set()
            self._conversation.fetch_sessions.add(session_id)


def _is_cut(chunk: memoryview, at: int) -> bool:
    """Whether too little of a frame is here to begin: the place of throttle_time_ms in Fetch is wanted."""
    here = len(chunk) - at
    if here < _HEAD_BYTES:
        return True
    size: int = _HEAD.unpack_from(chunk, at)[0]
    return here < min(4 + size, HEAD_BYTES_MAX)
