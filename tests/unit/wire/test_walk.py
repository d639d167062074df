"""Hostile bytes are refused before kio sees them, and unknown tagged fields are taken out."""

import contextlib
import io
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_writer
from kio.serial._serialize import get_field_writer

from tests.unit.wire.messages import SERVED, messages
from wire import codec
from wire.faults import MalformedFrame, TooManyEntries
from wire.request_bounds import USUAL, bound_of
from wire.schema import Field, fields_of, payload_apis, versions_of
from wire.uvarint import pack_uvarint, read_uvarint
from wire.walk import clean_message

KEYS = {api: key for key, api in payload_apis().items()}
CLASSES = [
    (key, version, response)
    for key, api in payload_apis().items()
    for version in versions_of(api)
    for response in (False, True)
    if api in SERVED and version in SERVED[api]
]
FLEXIBLE = [case for case in CLASSES if codec.is_flexible(case[0], case[1])]

quick = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("api", SERVED)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_messages_are_malformed_or_decoded(api: str, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(SERVED[api]))
    response = data.draw(st.booleans())
    cls = codec.payload_class(KEYS[api], version, response=response)
    body = bytearray(codec.encode(data.draw(messages(cls))))
    for _ in range(data.draw(st.integers(0, 3))):
        if body:
            at = data.draw(st.integers(0, len(body) - 1))
            body[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    keep = data.draw(st.just(len(body)) | st.integers(0, len(body)))
    body = body[:keep] + data.draw(st.binary(max_size=5))
    try:
        decoded = codec.decode(cls, bytes(body))
    except MalformedFrame:
        return
    assert codec.decode(cls, codec.encode(decoded)) == decoded


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (3, 9, b"\xff\xff\xff\xff\x0f"),
        (3, 9, b"\xff\xff\xff\xff\x07" + bytes(10)),
        (1, 4, struct.pack(">iiiibi", -1, 0, 0, 0, 0, 2**31 - 1)),
        (20, 1, struct.pack(">i", 2**31 - 1)),
        (20, 1, struct.pack(">i", -1) + bytes(4)),
        (20, 1, struct.pack(">ih", 1, -1) + bytes(4)),
        (20, 4, b"\0" + bytes(4) + b"\0"),
        (18, 3, b"\0\x01\0"),
        (18, 3, b"\x01\x01\xff\xff\xff\xff\x0f"),
        (18, 3, b"\x80\x80\x80\x80\x80\x80"),
        (18, 3, b""),
    ],
)
def test_absurd_claims_are_refused(api_key: int, version: int, body: bytes) -> None:
    """kio would abort the process on the first ones."""
    with pytest.raises(MalformedFrame):
        codec.decode(codec.request_class(api_key, version), body)


def test_the_entries_of_a_request_are_bounded() -> None:
    cls, most = codec.request_class(20, 1), bound_of(20).entries_max

    def body(names: int) -> bytes:
        return struct.pack(">i", names) + bytes(2 * names) + bytes(4)

    assert len(codec.decode(cls, body(most)).topic_names) == most
    with pytest.raises(TooManyEntries):
        codec.decode(cls, body(most + 1))


def test_the_numbers_of_a_request_are_bounded() -> None:
    head = struct.pack(">h1si h1si", 1, b"g", 1, 1, b"t", USUAL.entries_max + 1)
    with pytest.raises(TooManyEntries):
        codec.decode(codec.request_class(9, 1), head + bytes(4 * (USUAL.entries_max + 1)))


@pytest.mark.parametrize("size", [1, 3, 4, 200])
def test_a_tag_of_another_size_than_its_value_is_malformed(size: int) -> None:
    cls = codec.request_class(1, 12)
    plain = cls(max_wait=codec.duration(0), min_bytes=0, topics=(), forgotten_topics_data=(), rack_id="")
    body = codec.encode(plain)
    assert body[-1:] == b"\0"
    value = b"\2a"
    assert codec.decode(cls, body[:-1] + bytes((1, 0, len(value))) + value).cluster_id == "a"
    with pytest.raises(MalformedFrame):
        codec.decode(cls, body[:-1] + bytes((1, 0, size)) + value + bytes(size - 2 if 2 < size < 9 else 0))


def test_a_compact_string_beyond_kafkas_limit_is_malformed() -> None:
    cls = codec.request_class(20, 4)
    for size, fits in ((32767, True), (32768, False)):
        body = b"\2" + pack_uvarint(size + 1) + b"x" * size + bytes(4) + b"\0"
        if fits:
            assert codec.decode(cls, body).topic_names == ("x" * size,)
        else:
            with pytest.raises(MalformedFrame):
                codec.decode(cls, body)


def test_a_fixed_field_that_is_cut_short_is_malformed() -> None:
    body = codec.encode(codec.request_class(20, 1)(topic_names=("a",), timeout=codec.duration(1)))
    assert clean_message(codec.request_class(20, 1), body, 0) == (body, 0)
    with pytest.raises(MalformedFrame):
        clean_message(codec.request_class(20, 1), body[:-1], 0)


class TagInjector:
    """Encodes messages with tagged fields nobody knows in every struct."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.injected = 0

    def encode(self, entity: Any) -> bytes:
        out = io.BytesIO()
        tags: list[tuple[int, bytes]] = []
        declared = {each.name: each for each in type(entity).__dataclass_fields__.values()}
        for field in fields_of(type(entity)):
            value = getattr(entity, field.name)
            if field.tag is None:
                out.write(self._value(field, declared[field.name], value))
            elif value != declared[field.name].default:
                tags.append((field.tag, self._value(field, declared[field.name], value)))
        for at in range(self.data.draw(st.integers(0, 2))):
            tags.append((900 + at, self.data.draw(st.binary(max_size=4))))
            self.injected += 1
        out.write(pack_uvarint(len(tags)))
        for tag, raw in sorted(tags):
            out.write(pack_uvarint(tag) + pack_uvarint(len(raw)) + raw)
        return out.getvalue()

    def _value(self, field: Field, declared: Any, value: Any) -> bytes:
        if field.kafka_type != "entity":
            out = io.BytesIO()
            get_field_writer(declared, True, False, field.tag is not None)(out, value)
            return out.getvalue()
        if field.is_array:
            if value is None:
                return b"\0"
            return pack_uvarint(len(value) + 1) + b"".join(map(self.encode, value))
        if field.nullable and field.tag is None:
            return b"\xff" if value is None else b"\x01" + self.encode(value)
        return self.encode(value)


@pytest.mark.parametrize(("api_key", "version", "response"), FLEXIBLE)
@quick
@given(data=st.data())
def test_unknown_tags_are_taken_out(api_key: int, version: int, response: bool, data: st.DataObject) -> None:
    message = data.draw(messages(codec.payload_class(api_key, version, response=response)))
    injector = TagInjector(data)
    body = injector.encode(message)
    plain = codec.encode(message)
    assert codec.decode(type(message), body) == message
    assert (body == plain) == (injector.injected == 0)
    if response:
        head = b"\0\0\0\7"
        tagged = codec.response_header_size(api_key, version) == 5
    else:
        head = struct.pack(">hhih", api_key, version, 7, 2) + b"me"
        tagged = True
    head += b"\x01\x63\x01x" if tagged else b""
    cleaned, at = clean_message(type(message), head + body, len(head))
    assert cleaned[at:] == plain
    if response:
        assert codec.decode_response(head + body, api_key, version) == (7, message)
    else:
        assert codec.parse_request_header(head + body, True).body_at == len(head)


def test_a_message_without_unknown_tags_stays_the_same_object() -> None:
    request = codec.request_class(18, 3)(client_software_name="a", client_software_version="1")
    frame = codec.framed_request(request, 1, "me")[4:]
    body_at = codec.parse_request_header(frame, True).body_at
    cleaned, at = clean_message(type(request), frame, body_at)
    assert cleaned is frame and at == body_at


@pytest.mark.parametrize("cut", range(20))
def test_truncated_frames_are_malformed(cut: int) -> None:
    request = codec.request_class(18, 3)(client_software_name="a", client_software_version="1")
    frame = codec.framed_request(request, 1, "me")[4:]
    assert len(frame) == 18
    if cut < len(frame):
        with pytest.raises(MalformedFrame):
            codec.decode(type(request), frame[:cut], codec.parse_request_header(frame[:cut], True).body_at)


def test_all_messages_of_kio_can_be_walked() -> None:
    """Empty messages of everything, so that a type the walk does not know is found."""
    for key, api in payload_apis().items():
        for version in versions_of(api):
            for response in (False, True):
                cls = codec.payload_class(key, version, response=response)
                assert entity_writer(cls)
                with pytest.raises(MalformedFrame) if response else contextlib.suppress(MalformedFrame):
                    codec.decode(cls, bytes(3000) + b"\xff")


def test_bytes_behind_a_request_are_ignored_and_behind_a_response_are_not() -> None:
    # librdkafka 2.16 asks for all topics in Metadata 11 with a 4-byte zero where one byte is meant.
    assert codec.decode(codec.request_class(3, 11), b"\0\0\0\0\1\0\0").topics is None
    with pytest.raises(MalformedFrame):
        codec.decode(codec.response_class(12, 0), b"\0\0\0")


@given(value=st.integers(0, 2**32 - 1))
def test_uvarints(value: int) -> None:
    raw = pack_uvarint(value)
    assert read_uvarint(b"x" + raw, 1) == (value, 1 + len(raw))
    with pytest.raises(MalformedFrame):
        read_uvarint(raw[:-1], 0)


@pytest.mark.parametrize(("version", "length"), [(1, struct.pack(">h", 4)), (4, b"\5")])
def test_a_name_that_is_not_utf8_is_written_out(version: int, length: bytes) -> None:
    cls = codec.request_class(20, version)
    plain = codec.encode(cls(topic_names=("abcd", "e"), timeout=codec.duration(0)))
    assert plain.count(length + b"abcd") == 1
    broken = codec.decode(cls, plain.replace(b"abcd", b"a\xff\xc3d"))
    assert broken.topic_names == ("a\ufffdff\ufffdc3d", "e")
    assert codec.decode(cls, plain.replace(b"abcd", b"a\xff\xc4d")).topic_names != broken.topic_names


def test_an_id_that_is_not_utf8_is_empty_and_other_words_are_malformed() -> None:
    cls = codec.request_class(12, 4)
    request = cls(group_id="abcd", generation_id=1, member_id="efgh", group_instance_id="ijkl")
    plain = codec.encode(request)
    assert codec.decode(cls, plain.replace(b"abcd", b"a\xff\xffd")).group_id == ""
    assert codec.decode(cls, plain.replace(b"efgh", b"e\xff\xffh")).member_id == "e\ufffdff\ufffdffh"
    with pytest.raises(MalformedFrame):
        codec.decode(cls, plain.replace(b"ijkl", b"i\xff\xffl"))


def test_a_long_name_that_is_not_utf8_is_still_one_of_kafkas_strings() -> None:
    cls = codec.request_class(20, 1)
    body = struct.pack(">ih", 1, 32_767) + b"\xff" * 32_767 + bytes(4)
    (name,) = codec.decode(cls, body).topic_names
    assert 249 < len(name.encode()) <= 32_767 - 13


def test_a_response_that_is_not_utf8_is_malformed() -> None:
    cls = codec.response_class(12, 0)
    assert codec.encode(cls(error_code=codec.decode(cls, bytes(2)).error_code)) == bytes(2)
    find = codec.response_class(10, 0)
    with pytest.raises(MalformedFrame):
        codec.decode(find, struct.pack(">hih", 0, 1, 2) + b"\xff\xff" + bytes(4))
