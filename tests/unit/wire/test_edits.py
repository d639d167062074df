"""Frame edits give the bytes that decode, rewrite and encode would give, for every edited version."""

import dataclasses
import re
import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.response import FetchableTopicResponse, FetchResponse, NodeEndpoint

from tests.unit.wire.messages import FOREIGN, OWN, VIEW, map_fields, messages
from wire import codec, edit_stream
from wire.api_table import ApiKey
from wire.build import build, response
from wire.edits import (
    EDITED,
    PRODUCE_BY_ID_FROM,
    FrameEditor,
    client_id_field,
    edit_fetch_request,
    edit_fetch_response,
    edit_produce_request,
    edit_produce_response,
    fetch_response_editor,
    fetch_session,
    produce_request_editor,
)
from wire.faults import EmptyName, ForeignName, MalformedFrame, NameTooLong, NotMappable
from wire.rewrite import rewrite_request, rewrite_response
from wire.scope import SCOPE_BYTES, STRING_BYTES_MAX
from wire.throttle_time import raised

quick = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))

CASES = [(key, version) for key, versions in EDITED.items() for version in versions]
STREAMED_REQUESTS = [(ApiKey.PRODUCE, version) for version in EDITED[ApiKey.PRODUCE]]
STREAMED_RESPONSES = [(ApiKey.FETCH, version) for version in EDITED[ApiKey.FETCH]]
CLIENT_IDS = st.none() | st.text("client-é", max_size=9)
REPLACEMENTS = st.none() | st.sampled_from(["iaaaaaaaaaaa@1", "é" * 40])
"""What goes up in place of the client's id."""


class AnyId:
    """Every topic id is the instance's own."""

    def __contains__(self, topic_id: object) -> bool:
        return isinstance(topic_id, bytes) and len(topic_id) == 16


ANY_ID = AnyId()


def physical(found: str, value: Any, beside: Any) -> Any:
    return OWN.prefix + value if found == "topic name" else value


def joined(buffers: list[Any]) -> bytes:
    return b"".join(bytes(buffer) for buffer in buffers)


def edited_request(key: ApiKey, frame: bytes, replacement: str | None = None) -> bytes:
    edit = edit_produce_request if key is ApiKey.PRODUCE else edit_fetch_request
    field = None if replacement is None else client_id_field(replacement)
    return joined(edit(memoryview(frame), OWN, client_id=field).buffers)


def edited_response(key: ApiKey, version: int, frame: bytes) -> bytes:
    if key is ApiKey.PRODUCE:
        return joined(edit_produce_response(memoryview(frame), version, OWN, ANY_ID).buffers)
    return joined(edit_fetch_response(memoryview(frame), version, OWN, topic_ids=ANY_ID).buffers)


def editor_of(key: ApiKey, version: int) -> FrameEditor:
    if key is ApiKey.PRODUCE:
        return produce_request_editor(version, OWN, topic_ids=ANY_ID)
    return fetch_response_editor(version, OWN, topic_ids=ANY_ID)


def streamed(editor: FrameEditor, frame: bytes, cuts: list[int]) -> bytes:
    """Feed a frame, and the beginning of a next one, in pieces; every piece is overwritten after use."""
    stream = frame + b"next"
    out = b""
    fed = 0
    for end in [*sorted(cut % len(stream) for cut in cuts), len(stream)]:
        while fed < end and not editor.done:
            piece = bytearray(stream[fed:end])
            buffers, used = editor.feed(memoryview(piece))
            out += joined(buffers)
            del buffers
            piece[:] = b"\xee" * len(piece)
            assert used == len(piece) or editor.done
            fed += used
    assert fed == len(frame) and editor.done
    return out


def streamed_request(key: ApiKey, frame: bytes) -> bytes:
    return streamed(editor_of(key, 7), frame, [])


@pytest.mark.parametrize(("key", "version"), CASES)
@quick
@given(data=st.data(), client_id=CLIENT_IDS, replacement=REPLACEMENTS)
def test_requests(
    key: ApiKey, version: int, data: st.DataObject, client_id: str | None, replacement: str | None
) -> None:
    request = data.draw(messages(codec.request_class(key, version)))
    frame = codec.framed_request(request, 77, client_id)
    expected = codec.framed_request(rewrite_request(request, OWN), 77, replacement or client_id)
    assert shortest_request(key, version, edited_request(key, frame, replacement)) == expected


@pytest.mark.parametrize(("key", "version"), CASES)
@quick
@given(data=st.data())
def test_responses(key: ApiKey, version: int, data: st.DataObject) -> None:
    response = data.draw(messages(codec.response_class(key, version)))
    texts = st.sampled_from(["", f"topic '{OWN.prefix}a' ", f"topic '{FOREIGN.prefix}a' "])

    def mapped(found: str, value: Any, beside: Any) -> Any:
        return data.draw(texts) + value if found == "error text" else physical(found, value, beside)

    response = map_fields(response, mapped)
    frame = codec.framed_response(response, 78)
    rewritten = rewrite_response(response, OWN, VIEW)
    if hasattr(rewritten, "node_endpoints"):
        rewritten = dataclasses.replace(rewritten, node_endpoints=())  # Metadata tells addresses
    edited = edited_response(key, version, frame)
    _, understood = codec.decode_response(edited[4:], key, version)
    assert codec.framed_response(understood, 78) == codec.framed_response(rewritten, 78)
    if not codec.is_flexible(key, version):
        assert edited == codec.framed_response(rewritten, 78)


@pytest.mark.parametrize(("key", "version"), STREAMED_REQUESTS)
@quick
@given(
    data=st.data(),
    client_id=CLIENT_IDS,
    replacement=REPLACEMENTS,
    cuts=st.lists(st.integers(0, 1 << 16), max_size=12),
)
def test_streamed_requests(
    key: ApiKey,
    version: int,
    data: st.DataObject,
    client_id: str | None,
    replacement: str | None,
    cuts: list[int],
) -> None:
    request = data.draw(messages(codec.request_class(key, version)))
    frame = codec.framed_request(request, 77, client_id)
    field = None if replacement is None else client_id_field(replacement)
    editor = produce_request_editor(version, OWN, field, ANY_ID)
    expected = edited_request(key, frame, replacement)
    assert streamed(editor, frame, cuts) == expected
    assert (editor.frame_bytes, editor.grown) == (len(frame), len(expected) - len(frame))
    assert editor.correlation_id == 77
    assert editor.facts["acks"] == request.acks
    named = [] if version >= PRODUCE_BY_ID_FROM else [topic.name.encode() for topic in request.topic_data]
    assert editor.topics == named


@pytest.mark.parametrize(("key", "version"), STREAMED_RESPONSES)
@quick
@given(data=st.data(), cuts=st.lists(st.integers(0, 1 << 16), max_size=12))
def test_streamed_responses(key: ApiKey, version: int, data: st.DataObject, cuts: list[int]) -> None:
    response = map_fields(data.draw(messages(codec.response_class(key, version))), physical)
    frame = codec.framed_response(response, 78)
    editor = editor_of(key, version)
    assert same(streamed(editor, frame, cuts), edited_response(key, version, frame))
    if version >= 7:
        assert editor.facts["session_id"] == response.session_id
        assert editor.facts["error_code"] == response.error_code


@pytest.mark.parametrize(("key", "version"), [*STREAMED_REQUESTS[-1:], *STREAMED_RESPONSES[-1:]])
@quick
@given(data=st.data())
def test_byte_by_byte(key: ApiKey, version: int, data: st.DataObject) -> None:
    if key is ApiKey.PRODUCE:
        frame = codec.framed_request(data.draw(messages(codec.request_class(key, version))), 1, "c")
        expected = edited_request(key, frame)
    else:
        response = map_fields(data.draw(messages(codec.response_class(key, version))), physical)
        frame = codec.framed_response(response, 1)
        expected = edited_response(key, version, frame)
    assert same(streamed(editor_of(key, version), frame, list(range(len(frame)))), expected)


@pytest.mark.parametrize("size", [1, 113, 114, 126, 127, 249])
def test_names_whose_compact_length_gets_wider_or_narrower(size: int) -> None:
    produce = codec.request_class(ApiKey.PRODUCE, 9)
    names = ["o" * size, "p", "q" * size]
    topics = [{"name": name, "partition_data": [{"index": 0, "records": b"xyz" * 90}]} for name in names]
    request = build(produce, {"acks": -1, "topic_data": topics})
    frame = codec.framed_request(request, 1, "c")
    edited = edited_request(ApiKey.PRODUCE, frame)
    assert shortest_request(ApiKey.PRODUCE, 9, edited) == codec.framed_request(
        rewrite_request(request, OWN), 1, "c"
    )
    assert streamed(editor_of(ApiKey.PRODUCE, 9), frame, list(range(len(frame)))) == edited

    fetched = [{"topic": OWN.prefix + name, "partitions": [{"records": b"xyz" * 90}]} for name in names]
    response = build(codec.response_class(ApiKey.FETCH, 12), {"responses": fetched})
    frame = codec.framed_response(response, 1)
    edited = edited_response(ApiKey.FETCH, 12, frame)
    _, understood = codec.decode_response(edited[4:], ApiKey.FETCH, 12)
    assert understood == rewrite_response(response, OWN, VIEW)
    assert streamed(editor_of(ApiKey.FETCH, 12), frame, list(range(len(frame)))) == edited


@pytest.mark.parametrize("size", [b"\x82\x80\x80\x80\x00", b"\x82\x80\x80\x80\x80\x00"])
def test_a_name_whose_length_cannot_get_wider_is_malformed(size: bytes) -> None:
    body = b"\0\xff\xff" + bytes(4) + b"\2" + size + b"o\1\0\0"
    head = struct.pack(">hhi", ApiKey.PRODUCE, 9, 1) + b"\xff\xff\0"
    frame = struct.pack(">i", len(head + body)) + head + body
    with pytest.raises(MalformedFrame):
        edited_request(ApiKey.PRODUCE, frame)
    with pytest.raises(MalformedFrame):
        streamed(editor_of(ApiKey.PRODUCE, 9), frame, [])


def test_nobody_is_told_where_another_cluster_has_its_brokers() -> None:
    endpoint = {"node_id": 7, "host": "kafka-7.internal", "port": 9092}
    answers = [{"index": 0, "error_code": ErrorCode.not_leader_or_follower}]
    topics = [{"name": OWN.prefix + "o", "partition_responses": answers}]
    told = build(
        codec.response_class(ApiKey.PRODUCE, 10), {"responses": topics, "node_endpoints": [endpoint]}
    )
    frame = codec.framed_response(told, 1)
    assert b"internal" in frame
    _, edited = codec.decode_response(edited_response(ApiKey.PRODUCE, 10, frame)[4:], ApiKey.PRODUCE, 10)
    assert edited.node_endpoints == () and edited.responses[0].name == "o"
    _, throttled = codec.decode_response(raised(frame, ApiKey.PRODUCE, 10, 250)[4:], ApiKey.PRODUCE, 10)
    assert throttled.throttle_time == codec.duration(250) and throttled.node_endpoints == told.node_endpoints


@pytest.mark.parametrize("version", [16, 17, 18])
@pytest.mark.parametrize("records", [b"", b"r" * 400])
def test_nor_by_a_fetch_whole_or_streamed(version: int, records: bytes) -> None:
    endpoints = [{"node_id": each, "host": f"kafka-{each}.internal", "port": 9092} for each in range(9)]
    fetched = [
        {"partition_index": 0, "records": records, "current_leader": {"leader_id": 7, "leader_epoch": 3}}
    ]
    topics = [{"topic_id": UUID(int=5), "partitions": fetched}]
    told = build(
        codec.response_class(ApiKey.FETCH, version), {"responses": topics, "node_endpoints": endpoints}
    )
    frame = codec.framed_response(told, 1)
    expected = dataclasses.replace(told, node_endpoints=())
    for edited in (
        edited_response(ApiKey.FETCH, version, frame),
        streamed(editor_of(ApiKey.FETCH, version), frame, []),
        streamed(editor_of(ApiKey.FETCH, version), frame, list(range(len(frame)))),
    ):
        assert b"internal" not in edited
        assert struct.unpack_from(">i", edited)[0] == len(edited) - 4
        assert codec.decode_response(edited[4:], ApiKey.FETCH, version)[1] == expected


@pytest.mark.parametrize("version", range(13, 19))
def test_a_topic_id_that_is_not_the_instances_is_a_fault(version: int) -> None:
    own, foreign = UUID(int=5), UUID(int=6)
    known = {own.bytes: "orders"}
    fetched = [{"partition_index": 0, "records": b"r" * 50}]
    topics = [{"topic_id": own, "partitions": fetched}, {"topic_id": foreign, "partitions": fetched}]
    shape = codec.response_class(ApiKey.FETCH, version)
    right = codec.framed_response(build(shape, {"responses": topics[:1]}), 1)
    assert joined(edit_fetch_response(memoryview(right), version, OWN, topic_ids=known).buffers) == right
    wrong = codec.framed_response(build(shape, {"responses": topics}), 1)
    with pytest.raises(ForeignName):
        edit_fetch_response(memoryview(wrong), version, OWN, topic_ids=known)
    with pytest.raises(ForeignName):
        fetch_response_editor(version, OWN, topic_ids=known).feed(memoryview(wrong))
    with pytest.raises(ForeignName):
        streamed(fetch_response_editor(version, OWN, topic_ids=known), wrong, list(range(len(wrong))))


@pytest.mark.parametrize("version", range(13, 19))
def test_a_fetch_request_tells_its_topic_ids(version: int) -> None:
    ids = [UUID(int=each) for each in (7, 8, 9)]
    asked = [{"topic_id": each, "partitions": [{"partition": 0}]} for each in ids[:2]]
    forgotten = [{"topic_id": ids[2], "partitions": [1]}]
    known = {"topics": asked, "forgotten_topics_data": forgotten, "cluster_id": "of-a-client"}
    if version < 15:
        known["replica_id"] = -1
    request = build(codec.request_class(ApiKey.FETCH, version), known)
    edit = edit_fetch_request(memoryview(codec.framed_request(request, 1, "c")), OWN)
    assert edit.topics == [each.bytes for each in ids]
    expected = dataclasses.replace(request, cluster_id=None)
    assert joined(edit.buffers) == codec.framed_request(expected, 1, "c")


@pytest.mark.parametrize("version", range(15, 19))
def test_nobody_fetches_in_the_name_of_a_replica(version: int) -> None:
    known = {"replica_state": {"replica_id": 2, "replica_epoch": 1}}
    request = build(codec.request_class(ApiKey.FETCH, version), known)
    with pytest.raises(NotMappable):
        edit_fetch_request(memoryview(codec.framed_request(request, 1, "c")), OWN)


def damaged(frame: bytes, data: st.DataObject) -> bytes:
    """The frame with a few bytes changed, cut off, or made longer; the length prefix is right or wrong."""
    body = bytearray(frame)
    for _ in range(data.draw(st.integers(0, 3))):
        body[data.draw(st.integers(4, len(body) - 1))] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    keep = data.draw(st.just(len(body)) | st.integers(min(14, len(body)), len(body)))
    body = body[:keep] + data.draw(st.binary(max_size=3))
    struct.pack_into(">i", body, 0, len(body) - 4)
    return bytes(body)


def outcome(work: Any) -> Any:
    try:
        return work()
    except (MalformedFrame, NameTooLong, EmptyName, NotMappable) as fault:
        return fault


@pytest.mark.parametrize(("key", "version"), CASES)
@quick
@given(data=st.data())
def test_damaged_requests_are_malformed_or_right(key: ApiKey, version: int, data: st.DataObject) -> None:
    frame = codec.framed_request(data.draw(messages(codec.request_class(key, version))), 1, "c")
    frame = damaged(frame, data)
    struct.pack_into(">hh", broken := bytearray(frame), 4, key, version)
    frame = bytes(broken)
    edited = outcome(lambda: edited_request(key, frame))
    if key is ApiKey.PRODUCE:
        streaming = outcome(lambda: streamed(editor_of(key, version), frame, [len(frame) // 2]))
        assert same(edited, streaming)
    if isinstance(edited, bytes):
        typed = outcome(lambda: typed_request(key, version, frame))
        assert (
            isinstance(typed, MalformedFrame)
            or was_unreadable(frame, typed)
            or typed == shortest_request(key, version, edited)
        )


def shortest_request(key: ApiKey, version: int, frame: bytes) -> bytes:
    """A frame of a flexible version, which has several forms of one number and tagged fields that are passed
    on unread, as kio would write it."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    if not codec.is_flexible(key, version):
        return frame
    header = codec.parse_request_header(frame[4:], flexible=True)
    decoded = codec.decode(codec.request_class(key, version), frame[4:], header.body_at)
    return codec.framed_request(decoded, header.correlation_id, header.client_id)


def was_unreadable(frame: bytes, typed: Any) -> bool:
    """Whether a string was not UTF-8: it is edited as it is, and decoded written out or, of an id, empty."""
    mark = "\ufffd".encode()
    return isinstance(typed, EmptyName) or (isinstance(typed, bytes) and mark in typed and mark not in frame)


def typed_request(key: ApiKey, version: int, frame: bytes) -> bytes:
    header = codec.parse_request_header(frame[4:], flexible=codec.is_flexible(key, version))
    request = codec.decode(codec.request_class(key, version), frame[4:], header.body_at)
    return codec.framed_request(rewrite_request(request, OWN), header.correlation_id, header.client_id)


@pytest.mark.parametrize(("key", "version"), CASES)
@quick
@given(data=st.data())
def test_damaged_responses_are_malformed_or_right(key: ApiKey, version: int, data: st.DataObject) -> None:
    response = map_fields(data.draw(messages(codec.response_class(key, version))), physical)
    frame = damaged(codec.framed_response(response, 1), data)
    edited = outcome(lambda: edited_response(key, version, frame))
    if key is ApiKey.FETCH:
        assert same(edited, outcome(lambda: streamed(editor_of(key, version), frame, [len(frame) // 2])))
    assert isinstance(edited, bytes | MalformedFrame)


def same(left: Any, right: Any) -> bool:
    """Whether both are faults, or one frame. What has no place in it is taken out of a whole one, and blanked
    in one that is streamed, as its length has left: that one is the longer."""
    if not isinstance(left, bytes) or not isinstance(right, bytes):
        return not isinstance(left, bytes) and not isinstance(right, bytes)
    whole, streaming = sorted((left, right), key=len)
    if len(whole) == len(streaming):
        return whole == streaming
    blank = re.search(rb"\x01\x7f[\x00-\x7f]\x00*\Z", streaming)
    return blank is not None and streaming[8 : blank.start()] == whole[8:].removesuffix(b"\0")


def test_an_id_that_ends_like_a_blank_is_kept() -> None:
    """Fetch 17 of a topic without partitions, whose id is the number of the field that blanks stand in."""
    made = FetchResponse(
        throttle_time=codec.duration(0),
        error_code=ErrorCode.none,
        session_id=0,
        responses=(FetchableTopicResponse(topic_id=UUID(int=127), partitions=()),),
        node_endpoints=(NodeEndpoint(node_id=0, host="a", port=0, rack=None),),
    )
    frame = codec.framed_response(made, 78)
    assert same(streamed(editor_of(ApiKey.FETCH, 17), frame, []), edited_response(ApiKey.FETCH, 17, frame))


@quick
@given(noise=st.binary(min_size=8, max_size=80), version=st.integers(0, 8))
@example(noise=b"\x7f\xff\xff\xff" * 8, version=4)
def test_noise_is_malformed(noise: bytes, version: int) -> None:
    frame = struct.pack(">ihh", len(noise), 0, version) + noise[4:]
    for work in (
        lambda: edit_produce_request(memoryview(frame), OWN),
        lambda: edit_produce_response(memoryview(frame), version, OWN),
        lambda: edit_fetch_response(memoryview(frame), version, OWN),
        lambda: produce_request_editor(version, OWN).feed(memoryview(frame)),
        lambda: fetch_response_editor(version, OWN).feed(memoryview(frame)),
    ):
        outcome(work)


def produce(
    topics: list[tuple[str, list[bytes]]], transactional_id: str | None = None, version: int = 7
) -> bytes:
    cls = codec.request_class(ApiKey.PRODUCE, version)
    topic_class = cls.__dataclass_fields__["topic_data"].type.__args__[0]
    partition_class = topic_class.__dataclass_fields__["partition_data"].type.__args__[0]
    request = cls(
        transactional_id=transactional_id,
        acks=-1,
        timeout=codec.duration(1000),
        topic_data=tuple(
            topic_class(
                name=name,
                partition_data=tuple(
                    partition_class(index=at, records=each) for at, each in enumerate(records)
                ),
            )
            for name, records in topics
        ),
    )
    return codec.framed_request(request, 5, "client")


@quick
@given(
    data=st.data(),
    name=st.text("orders-é", max_size=9),
    records=st.binary(max_size=80),
    transactional_id=st.none() | st.just("t"),
    version=st.integers(3, 8),
)
def test_one_partition_is_edited_as_a_stream_of_any_is(
    data: st.DataObject, name: str, records: bytes, transactional_id: str | None, version: int
) -> None:
    """Right or damaged: the short way for what most requests are does not judge for itself."""
    frame = damaged(produce([(name, [records])], transactional_id, version), data)
    struct.pack_into(">hh", broken := bytearray(frame), 4, int(ApiKey.PRODUCE), version)
    frame = bytes(broken)
    edited = outcome(lambda: edited_request(ApiKey.PRODUCE, frame))
    assert same(edited, outcome(lambda: streamed(editor_of(ApiKey.PRODUCE, version), frame, [14])))
    if isinstance(edited, bytes):
        facts = edit_produce_request(memoryview(frame), OWN)
        streaming = editor_of(ApiKey.PRODUCE, version)
        streaming.feed(memoryview(frame))
        assert (facts.correlation_id, facts.acks) == (streaming.correlation_id, streaming.facts["acks"])


@pytest.mark.parametrize("size", [0, 1, STRING_BYTES_MAX - SCOPE_BYTES, STRING_BYTES_MAX - SCOPE_BYTES + 1])
def test_names_of_the_only_topic_have_the_bounds_of_any(size: int) -> None:
    frames = [produce([("n" * size, [b"r"])]), produce([("n" * size, [b"r", b"r"])])]
    one, two = (outcome(lambda frame=frame: edited_request(ApiKey.PRODUCE, frame)) for frame in frames)
    assert type(one) is type(two)


def test_records_are_passed_by_reference() -> None:
    frame = produce([("orders", [b"r" * 100_000])])
    edit = edit_produce_request(memoryview(frame), OWN)
    assert [type(buffer) for buffer in edit.buffers] == [bytes, memoryview]
    assert len(edit.buffers[0]) < 100
    assert (edit.correlation_id, edit.acks, edit.topics) == (5, -1, [b"orders"])


def test_a_streamed_frame_with_one_topic_is_at_most_three_buffers() -> None:
    frame = produce([("orders", [b"r" * 100_000] * 12)])
    buffers, _ = produce_request_editor(7, OWN).feed(memoryview(frame))
    assert len(buffers) <= 3


def test_a_frame_of_many_topics_is_one_buffer() -> None:
    frame = produce([(f"t{at}", [b"r" * 10]) for at in range(2000)])
    assert len(edit_produce_request(memoryview(frame), OWN).buffers) == 1


def test_records_longer_than_their_frame_are_refused_before_they_arrive() -> None:
    frame = bytearray(produce([("orders", [b"r" * 5000])]))
    at = frame.index(struct.pack(">i", 5000))
    struct.pack_into(">i", frame, at, 5001)
    with pytest.raises(MalformedFrame):
        produce_request_editor(7, OWN).feed(memoryview(frame)[: at + 10])


@pytest.mark.parametrize("edit", [edited_request, streamed_request])
def test_absurdly_many_topics_are_refused(edit: Any) -> None:
    frame = produce([("", [])] * 10_001)
    with pytest.raises(MalformedFrame):
        edit(ApiKey.PRODUCE, frame)


def test_streaming_keeps_no_more_than_an_unfinished_field() -> None:
    frame = produce([("orders", [b"r" * 3_000_000])])
    editor = produce_request_editor(7, OWN)
    for at in range(0, len(frame), 65536):
        buffers, _ = editor.feed(memoryview(frame)[at : at + 65536])
        assert sum(len(buffer) for buffer in buffers) <= 65536 + 100
        assert len(editor._carry) < 100
    assert editor.done


def test_a_dripping_head_is_not_read_anew_for_every_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = produce([("orders", [b"r"])], "t", version=9)
    at = 14 + len("client")
    tags = b"".join(bytes((tag & 0x7F | 0x80, tag >> 7, 0)) for tag in range(1000))
    body = frame[4:at] + b"\xe8\x07" + tags + frame[at + 1 :]
    frame = struct.pack(">i", len(body)) + body
    reads, read = 0, edit_stream._uvarint

    def counted(view: memoryview, at: int) -> tuple[int, int]:
        nonlocal reads
        reads += 1
        return read(view, at)

    monkeypatch.setattr(edit_stream, "_uvarint", counted)
    every_byte = list(range(len(frame)))
    assert streamed(editor_of(ApiKey.PRODUCE, 9), frame, every_byte) == edited_request(ApiKey.PRODUCE, frame)
    assert reads < 4 * len(frame)


@pytest.mark.parametrize("edit", [edited_request, streamed_request])
def test_names_that_cannot_be_mapped(edit: Any) -> None:
    with pytest.raises(EmptyName):
        edit(ApiKey.PRODUCE, produce([("a", [b""])], transactional_id=""))
    with pytest.raises(NameTooLong):
        edit(ApiKey.PRODUCE, produce([("a" * 32755, [b""])]))
    assert edit(ApiKey.PRODUCE, produce([("a" * 32754, [b""])]))


def fetch_response(name: str, version: int = 11) -> bytes:
    cls = codec.response_class(ApiKey.FETCH, version)
    topic_class = cls.__dataclass_fields__["responses"].type.__args__[0]
    none = codec.response_class(ApiKey.FETCH, version).__dataclass_fields__["error_code"].type(0)
    response = cls(
        throttle_time=codec.duration(0),
        error_code=none,
        session_id=9,
        responses=(topic_class(topic=name, partitions=()),),
    )
    return codec.framed_response(response, 6)


@pytest.mark.parametrize("name", [FOREIGN.prefix + "orders", "__consumer_offsets", "a", "", OWN.instance_id])
def test_a_foreign_topic_in_a_response_is_a_fault(name: str) -> None:
    frame = fetch_response(name)
    with pytest.raises(ForeignName):
        edit_fetch_response(memoryview(frame), 11, OWN)
    with pytest.raises(ForeignName):
        fetch_response_editor(11, OWN).feed(memoryview(frame))


def test_the_session_of_a_fetch_response_is_exposed() -> None:
    edit = edit_fetch_response(memoryview(fetch_response(OWN.prefix + "a")), 11, OWN)
    assert (edit.correlation_id, edit.error_code, edit.session_id) == (6, 0, 9)


@pytest.mark.parametrize("version", range(14))
def test_what_a_produce_response_tells_its_client_to_wait_is_exposed(version: int) -> None:
    topics = [{"name": OWN.prefix + "a"}] if version < 13 else [{"topic_id": UUID(int=1)}]
    told = {"throttle_time": codec.duration(1_234)} if version >= 1 else {}
    message = response(ApiKey.PRODUCE, version, responses=topics, **told)
    edit = edit_produce_response(memoryview(codec.framed_response(message, 6)), version, OWN, ANY_ID)
    assert edit.throttle_time_ms == (1_234 if version >= 1 else 0)


@pytest.mark.parametrize("version", range(4, 19))
def test_what_a_fetch_response_tells_its_client_to_wait_is_exposed(version: int) -> None:
    message = response(ApiKey.FETCH, version, throttle_time=codec.duration(1_234))
    frame = memoryview(codec.framed_response(message, 6))
    assert edit_fetch_response(frame, version, OWN, topic_ids=ANY_ID).throttle_time_ms == 1_234
    editor = fetch_response_editor(version, OWN, topic_ids=ANY_ID)
    editor.feed(frame)
    assert editor.facts["throttle_time"] == 1_234


def fetch_request(version: int, **fields: Any) -> bytes:
    cls = codec.request_class(ApiKey.FETCH, version)
    sessions = {"session_id": 41, "session_epoch": 3, "forgotten_topics_data": ()} if version >= 7 else {}
    rack = {"rack_id": ""} if version >= 11 else {}
    wanted: dict[str, Any] = {
        "replica_id": -1,
        "max_wait": codec.duration(500),
        "min_bytes": 1,
        "max_bytes": 1,
        "topics": (),
    }
    return codec.framed_request(cls(**(wanted | sessions | rack | fields)), 8, "client")


@pytest.mark.parametrize("version", range(7, 12))
def test_the_session_of_a_fetch_request_can_be_read_and_replaced(version: int) -> None:
    frame = fetch_request(version)
    assert fetch_session(memoryview(frame)) == (41, 3)
    edit = edit_fetch_request(memoryview(frame), OWN, session_id=0)
    assert (edit.session_id, edit.session_epoch, edit.max_wait_ms) == (0, 3, 500)
    assert joined(edit.buffers) == fetch_request(version, session_id=0)


@pytest.mark.parametrize("version", range(4, 7))
def test_old_fetch_requests_have_no_session(version: int) -> None:
    frame = fetch_request(version)
    assert fetch_session(memoryview(frame)) == (0, -1)
    assert joined(edit_fetch_request(memoryview(frame), OWN, session_id=0).buffers) == frame


@pytest.mark.parametrize("replica_id", [0, 2, -2])
def test_a_fetch_in_the_name_of_a_replica_is_refused(replica_id: int) -> None:
    with pytest.raises(NotMappable):
        edit_fetch_request(memoryview(fetch_request(11, replica_id=replica_id)), OWN)


def test_a_client_id_of_negative_length_is_malformed() -> None:
    produced = bytearray(produce([("a", [b""])]))
    fetched = bytearray(fetch_request(11))
    for frame in (produced, fetched):
        struct.pack_into(">h", frame, 12, -2)
    for work in (
        lambda: edit_produce_request(memoryview(produced), OWN),
        lambda: produce_request_editor(7, OWN).feed(memoryview(produced)),
        lambda: edit_fetch_request(memoryview(fetched), OWN),
        lambda: fetch_session(memoryview(fetched)),
    ):
        with pytest.raises(MalformedFrame, match="client id"):
            work()
