"""Produce 13, which names topics by ids: what goes up, when, and what is charged."""

from typing import Any
from uuid import UUID

import pytest

from gateway import served
from gateway.causes import DisconnectCause
from gateway.stops import ConnectionStop
from tests.unit.gateway.session_host import (
    Frames,
    SessionHost,
    brokers_reply,
    decoded_request,
    served_instance,
)
from wire.api_table import ApiKey
from wire.build import build
from wire.codec import decode_response, framed_request, request_class
from wire.faults import ForeignName
from wire.hot.produce import request_growth

OWN, OTHER, FOREIGN = UUID(int=1), UUID(int=2), UUID(int=3)
SIZE = 100_000


def _request(*topic_ids: UUID, acks: int = -1, transactional_id: str | None = None) -> Any:
    partitions = [{"index": 0, "records": b"r" * SIZE}]
    topics = [{"topic_id": each, "partition_data": partitions} for each in topic_ids]
    fields = {"acks": acks, "transactional_id": transactional_id, "topic_data": topics}
    return build(request_class(ApiKey.PRODUCE, 13), fields)


def _frame(*topic_ids: UUID, **more: Any) -> bytes:
    return framed_request(_request(*topic_ids, **more), 5, "client")


class OnlyOwn(SessionHost):
    """A cluster that has `OWN` and `OTHER` of the instance's topics."""

    def __init__(self, *known: UUID) -> None:
        super().__init__(served_instance())
        ids = self.served.topic_ids
        ids.learn((each, f"t{each.int}") for each in known)
        self.asked: list[UUID] = []

        async def look_up(topic_ids: Any) -> None:
            self.asked += topic_ids
            ids.learn((each, f"t{each.int}") for each in topic_ids if each != FOREIGN)
            ids.not_found(topic_ids, 0)

        self.around.look_up_topics = look_up  # type: ignore[method-assign]


def _went_up(host: SessionHost) -> list[Any]:
    return [decoded_request(frame)[3] for frame in Frames().take(bytes(host.up))]


@pytest.mark.parametrize("acks", [-1, 0])
def test_known_ids_go_up_as_they_came(acks: int) -> None:
    host = OnlyOwn(OWN, OTHER)
    host.client_sends(_frame(OWN, OTHER, acks=acks))
    assert bytes(host.up) == _frame(OWN, OTHER, acks=acks) and not host.asked


@pytest.mark.parametrize("acks", [-1, 0])
def test_unknown_ids_are_asked_for_and_go_up(acks: int) -> None:
    host = OnlyOwn(OWN)
    host.client_sends(_frame(OWN, OTHER, acks=acks, transactional_id="t"))
    assert host.asked == [OTHER]
    (request,) = _went_up(host)
    assert [each.topic_id for each in request.topic_data] == [OWN, OTHER]
    assert request.transactional_id == "iaaaaaaaaaaa.t" and request.acks == acks
    assert not host.around.charges, "the broker is told of all of it"


@pytest.mark.parametrize("transactional_id", [None, "t" * 120])
def test_each_byte_is_charged_once(transactional_id: str | None) -> None:
    host = OnlyOwn(OWN)
    frame = _frame(FOREIGN, OWN, transactional_id=transactional_id)
    host.client_sends(frame)
    ((_, version, _, request),) = [decoded_request(each) for each in Frames().take(bytes(host.up))]
    growth = request_growth(version, len(request.topic_data), request.transactional_id)
    charged = sum(one.produce_bytes for one in host.around.charges)
    assert charged + len(host.up) - growth == len(frame)
    assert [one.reason for one in host.around.charges] == ["unknown_topic_id"]


def test_one_topic_streams_as_soon_as_its_id_is_here() -> None:
    host = OnlyOwn(OWN)
    frame = _frame(OWN, transactional_id="t")
    host.client_sends(frame[:200])
    assert len(host.up) > 150
    host.client_sends(frame[200:])
    assert decoded_request(Frames().take(bytes(host.up))[0])[3].topic_data[0].topic_id == OWN


@pytest.mark.parametrize("topic_ids", [(OWN, FOREIGN), (OWN, OTHER), (FOREIGN,), (OTHER,)])
@pytest.mark.parametrize("cut", [15, 200, SIZE])
def test_nothing_goes_up_before_every_id_is_known(topic_ids: tuple[UUID, ...], cut: int) -> None:
    host = OnlyOwn(OWN)
    frame = _frame(*topic_ids)
    host.client_sends(frame[:cut])
    assert not host.up
    host.client_sends(frame[cut:])
    gone_up = [each.topic_id for request in _went_up(host) for each in request.topic_data]
    assert gone_up == [each for each in topic_ids if each != FOREIGN]
    if FOREIGN in topic_ids and not gone_up:
        _, answer = decode_response(bytes(host.down)[4:], ApiKey.PRODUCE, 13)
        assert answer.responses[0].partition_responses[0].error_code.name == "unknown_topic_id"


def test_the_id_is_looked_for_again_when_more_has_come() -> None:
    host = OnlyOwn(OWN)
    frame = _frame(OWN)
    for at in range(0, 200, 20):
        host.client_sends(frame[at : at + 20])
    assert len(host.up) > 100
    host.client_sends(frame[200:])
    assert bytes(host.up) == frame


@pytest.mark.parametrize("piece_bytes", [30, SIZE])
def test_without_room_known_ids_stream_and_nothing_of_an_unknown_one_goes_up(
    piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "COLLECTED_BYTES_MAX", SIZE // 2)
    host = OnlyOwn(OWN, OTHER)
    _send_in_pieces(host, _frame(OWN, OTHER), piece_bytes)
    assert bytes(host.up) == _frame(OWN, OTHER)

    host, frame = OnlyOwn(OWN), _frame(OWN, FOREIGN, OTHER)
    with pytest.raises(ForeignName):
        _send_in_pieces(host, frame, piece_bytes)
    assert len(host.up) > SIZE // 2 and frame.startswith(bytes(host.up)) and FOREIGN.bytes not in host.up

    host = OnlyOwn(OWN)
    with pytest.raises(ConnectionStop) as stop:
        _send_in_pieces(host, _frame(FOREIGN, OWN), piece_bytes)
    assert stop.value.cause is DisconnectCause.BUFFER_BUDGET and not host.up
    assert host.served.has_room(SIZE // 2), "what was collected is given back"


def _send_in_pieces(host: SessionHost, frame: bytes, piece_bytes: int) -> None:
    for at in range(0, len(frame), piece_bytes):
        host.client_sends(frame[at : at + piece_bytes])


def test_an_answer_about_somebody_elses_topic_ends_the_connection() -> None:
    host = OnlyOwn(OWN)
    host.client_sends(_frame(OWN))
    right = brokers_reply(Frames().take(bytes(host.up))[0])
    with pytest.raises(ForeignName):
        host.broker_sends(right.replace(OWN.bytes, FOREIGN.bytes))
    assert not host.down
