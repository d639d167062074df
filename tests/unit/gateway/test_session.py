"""A session as bytes in and bytes out: what it makes of a stream does not depend on how the stream is cut."""

import contextlib
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.causes import DisconnectCause
from gateway.session.ordering import UNANSWERED_MAX
from gateway.session.states import CLIENT, UPSTREAM, Client, Event, Sides, Upstream
from gateway.stops import ConnectionStop
from tests.unit.gateway.session_host import (
    INSTANCE,
    Frames,
    SessionHost,
    brokers_reply,
    decoded_request,
    served_instance,
)
from wire.api_table import ApiKey
from wire.build import build
from wire.codec import decode_response, framed_request, request_class
from wire.faults import MalformedFrame
from wire.throttle_time import raised

SIZES = (1, 7, 4096, 1 << 30)
LISTED = {"secret": ("10.0.0.0/8",)}
"""A topic that the client of these tests may not use."""


def produce(version: int, records: bytes, acks: int = 1, topic: str = "orders") -> Any:
    partition = {"index": 0, "records": records}
    topics = [{"name": topic, "partition_data": [partition, partition]}]
    return build(request_class(ApiKey.PRODUCE, version), {"acks": acks, "topic_data": topics})


def fetch(version: int, *topics: str) -> Any:
    asked = [{"topic": topic, "partitions": [{"partition": 0}]} for topic in topics]
    return build(request_class(ApiKey.FETCH, version), {"topics": asked, "session_epoch": -1})


def metadata(version: int, *topics: str) -> Any:
    known = {"topics": [{"name": topic} for topic in topics] or None}
    return build(request_class(ApiKey.METADATA, version), known)


def of(key: int, version: int, **known: Any) -> Any:
    return build(request_class(key, version), known)


NEW = {"name": "new", "num_partitions": 2, "replication_factor": -1}
KINDS: dict[str, Any] = {
    "produce": produce(8, b"r" * 9_000),
    "produce small": produce(3, b"r"),
    "produce acks=0": produce(7, b"r" * 700, acks=0),
    "produce in part": produce(7, b"r" * 50, topic="secret"),
    "fetch": fetch(11, "orders"),
    "fetch old": fetch(4, "orders", "other"),
    "fetch in part": fetch(11, "orders", "secret"),
    "metadata": metadata(4, "orders"),
    "metadata all": metadata(9),
    "versions": of(ApiKey.API_VERSIONS, 0),
    "versions again": of(ApiKey.API_VERSIONS, 3, client_software_name="x", client_software_version="1"),
    "sasl": of(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"),
    "create": of(ApiKey.CREATE_TOPICS, 4, topics=[NEW]),
    "heartbeat": of(ApiKey.HEARTBEAT, 3, group_id="g"),
}


def cut(takes: Callable[[bytes], None], data: bytes, size: int) -> None:
    """Hand it over in pieces."""
    for at in range(0, len(data), size):
        takes(data[at : at + size])


def streams(kinds: list[str], size: int, *, listed: bool, splices: bool) -> SessionHost:
    """The requests pipelined and answered, in pieces of `size` bytes both ways."""
    host = SessionHost(served_instance(LISTED if listed else None), splices=splices)
    sent = b"".join(framed_request(KINDS[kind], number, "c") for number, kind in enumerate(kinds, 1))
    frames, seen = Frames(), 0
    cut(host.client_sends, sent, size)
    while seen < len(host.up):
        went, seen = bytes(host.up[seen:]), len(host.up)
        replies = b"".join(map(brokers_reply, frames.take(went)))
        cut(host.broker_sends, replies, size)
    return host


@pytest.mark.parametrize("listed", [False, True])
@settings(max_examples=25, deadline=None)
@given(kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=8))
def test_streams_are_the_same_in_pieces_of_any_size(listed: bool, kinds: list[str]) -> None:
    whole = streams(kinds, SIZES[-1], listed=listed, splices=False)
    for size in SIZES[:-1]:
        for splices in (False, True):
            pieces = streams(kinds, size, listed=listed, splices=splices)
            assert pieces.up == whole.up and pieces.down == whole.down, (size, splices)
            assert pieces.session.requests.frames == len(kinds) and not pieces.session.queue.waiting
    answers = Frames().take(bytes(whole.down))
    expected = [n for n, kind in enumerate(kinds, 1) if kind != "produce acks=0"]
    assert [struct.unpack_from(">i", answer)[0] for answer in answers] == expected, "in request order"


def test_every_name_that_goes_up_has_the_scope_and_none_comes_down() -> None:
    host = streams(sorted(set(KINDS) - {"create"}), 7, listed=False, splices=False)
    names = [name for frame in Frames().take(bytes(host.up)) for name in names_of(frame)]
    assert len(names) > 5 and all(name.startswith(f"{INSTANCE}.") for name in names)
    assert INSTANCE.encode() not in host.down


@pytest.mark.parametrize("kind", ["produce", "produce small", "fetch", "metadata"])
@pytest.mark.parametrize("size", SIZES)
def test_how_long_answers_told_a_client_to_wait_is_known(kind: str, size: int) -> None:
    """Whatever API the answer is of, and whether it comes whole or in pieces."""
    host = SessionHost(served_instance())
    host.around.time_ms = 5_000
    host.client_sends(framed_request(KINDS[kind], 1, "billing"))
    (frame,) = Frames().take(bytes(host.up))
    api_key, version, *_ = decoded_request(frame)
    told = raised(brokers_reply(frame), api_key, version, 2_000)
    assert host.session.throttled_ms(5_000) == 0
    cut(host.broker_sends, told, size)
    assert [host.session.throttled_ms(at_ms) for at_ms in (5_000, 5_700, 9_000)] == [0, 700, 2_000]


def test_a_client_that_asks_for_no_versions_says_its_name_with_another_request() -> None:
    host = SessionHost(served_instance())
    host.client_sends(framed_request(KINDS["produce small"], 1, "billing"))
    assert host.session.identity.client_id == "", "it was not decoded"
    host.client_sends(framed_request(KINDS["metadata"], 2, "billing"))
    assert host.session.identity.client_id == "billing"


def names_of(frame: bytes) -> list[str]:
    """The topics of a frame that went up."""
    *_, request = decoded_request(frame)
    topics = getattr(request, "topic_data", None) or getattr(request, "topics", None) or ()
    return [str(getattr(topic, "name", None) or topic.topic) for topic in topics]


def test_opaque_bytes_are_most_of_a_large_frame_and_never_all() -> None:
    """The rest of a batch may pass unseen, but for the last byte, which ends the frame."""
    host = SessionHost(served_instance(), splices=True)
    frame = framed_request(produce(8, b"r" * 400_000), 1, "c")
    host.client_sends(frame[:1000])
    assert host.session.requests.opaque_bytes() > 390_000
    host.client_sends(frame[1000:])
    assert host.spliced > 390_000 and not host.session.requests.in_frame
    assert len(host.session.queue) == 1


def test_a_full_queue_takes_no_more_until_replies_come() -> None:
    host = SessionHost(served_instance())
    frame = framed_request(KINDS["produce small"], 1, "c")
    host.client_sends(frame * (UNANSWERED_MAX + 3))
    assert len(host.session.queue) == UNANSWERED_MAX and host.session.is_full
    first, *_ = Frames().take(bytes(host.up))
    host.broker_sends(brokers_reply(first) * 4)
    assert len(host.session.queue) == UNANSWERED_MAX - 1
    assert host.session.requests.frames == UNANSWERED_MAX + 3


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("sent", "cause"),
    [
        (b"\0\0\0\x03abc", DisconnectCause.BAD_FRAME_LENGTH),
        (b"\x7f\xff\xff\xff" + b"\0" * 8, DisconnectCause.REQUEST_TOO_LARGE),
        (struct.pack(">ihhi", 10, 999, 0, 1) + b"\xff\xff", DisconnectCause.UNSUPPORTED_API),
        (struct.pack(">ihhi", 10, 0, 99, 1) + b"\xff\xff", DisconnectCause.UNSUPPORTED_VERSION),
        (framed_request(produce(7, b"r" * 2_000_000), 1, "c"), DisconnectCause.REQUEST_TOO_LARGE),
        (
            framed_request(produce(7, b"r", acks=0, topic="secret"), 1, "c"),
            DisconnectCause.ACKS_ZERO_REFUSED,
        ),
    ],
)
def test_what_is_no_request_ends_it_and_what_was_answered_before_has_left(
    sent: bytes, cause: DisconnectCause, size: int
) -> None:
    host = SessionHost(served_instance(LISTED))
    sent = framed_request(KINDS["versions"], 5, "c") + sent
    with pytest.raises(ConnectionStop) as stopped:
        cut(host.client_sends, sent, size)
    assert stopped.value.cause is cause
    (answer,) = Frames().take(bytes(host.down))
    assert struct.unpack_from(">i", answer) == (5,)
    assert not host.up, "nothing of it goes up"


@pytest.mark.parametrize("size", SIZES)
def test_bytes_that_are_not_the_request_they_name_end_it(size: int) -> None:
    host = SessionHost(served_instance())
    frame = framed_request(KINDS["metadata"], 1, "c")
    sent = (len(frame) - 5).to_bytes(4, "big") + frame[4:-1]
    with pytest.raises(MalformedFrame):
        cut(host.client_sends, sent, size)


@pytest.mark.parametrize("size", SIZES)
def test_a_reply_that_nobody_waits_for_ends_it(size: int) -> None:
    host = SessionHost(served_instance())
    host.client_sends(framed_request(KINDS["metadata"], 1, "c"))
    (frame,) = Frames().take(bytes(host.up))
    reply = bytearray(brokers_reply(frame))
    reply[4:8] = struct.pack(">i", 2)
    with pytest.raises(ConnectionStop) as stopped:
        cut(host.broker_sends, bytes(reply), size)
    assert stopped.value.cause is DisconnectCause.UPSTREAM_MALFORMED and not host.down


def test_a_request_that_waits_holds_back_those_behind_it() -> None:
    host = SessionHost(served_instance())
    create, versions = framed_request(KINDS["create"], 1, "c"), framed_request(KINDS["versions"], 2, "c")
    host.client_sends(create + versions, settles=False)
    assert host.session.requests.waits is not None and host.session.requests.frames == 1 and not host.down
    host.settle()
    host.client_sends(b"")
    answers = Frames().take(bytes(host.down))
    assert [struct.unpack_from(">i", answer)[0] for answer in answers] == [1, 2]
    _, created = decode_response(answers[0], ApiKey.CREATE_TOPICS, 4)
    assert [topic.name for topic in created.topics] == ["new"]


# -- states --------------------------------------------------------------------------------------------


def test_every_state_is_reached_and_only_closed_is_final() -> None:
    for table, first, last in (
        (CLIENT, Client.SENDING, Client.CLOSED),
        (UPSTREAM, Upstream.ABSENT, Upstream.CLOSED),
    ):
        states = set(type(first))
        assert {first} | set(table.values()) == states
        assert {state for state, _ in table} == states - {last}


def test_an_impossible_move_is_an_error() -> None:
    sides = Sides()
    with pytest.raises(KeyError):
        sides.upstream_moves(Event.CONNECTS)
    sides.client_moves(Event.CLOSES)
    with pytest.raises(KeyError):
        sides.client_moves(Event.CLOSES)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(Event))))
def test_flags_say_what_the_states_say(moves: list[tuple[bool, Event]]) -> None:
    sides = Sides()
    for is_client, event in moves:
        with contextlib.suppress(KeyError):
            (sides.client_moves if is_client else sides.upstream_moves)(event)
        assert sides.is_over == (sides.client is Client.CLOSED)
        assert sides.flows == (
            sides.client is Client.SENDING and sides.upstream not in (Upstream.ENDED, Upstream.CLOSED)
        )
