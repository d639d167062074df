"""A session whose broker is not ours: what is counted, whose client id goes up, who waits and is refused."""

import dataclasses
import struct
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.join_group.v4.request import JoinGroupRequest
from msgspec.structs import replace

from contracts.charging import ChargeRequest
from contracts.quota import Direction
from contracts.specs import FullBehaviour
from contracts.users import SecurityProtocol
from gateway.causes import DisconnectCause
from gateway.session.requests import HeldBack
from gateway.stops import ConnectionStop
from tests.unit.gateway.session_host import (
    INSTANCE,
    NODE_ID,
    Frames,
    SessionHost,
    brokers_reply,
    served_instance,
)
from tests.unit.gateway.test_session import KINDS, cut, fetch, produce
from traffic.engine_room import AT_ONCE_US
from traffic.engine_time import CONNECT_US, of_answer_us, of_request
from traffic.relayed import RelayedFlows
from traffic.verdict import Full, full_message
from wire.api_table import ApiKey
from wire.codec import decode_response, framed_request
from wire.throttle_time import raised

CLIENT_ID = "the tenant's own"
SIZES = (1, 7, 4096, 1 << 30)
RATE = 10_000
OF_MEMBERS = (int(ApiKey.JOIN_GROUP), int(ApiKey.CONSUMER_GROUP_HEARTBEAT))


def relayed(rate: int = 0) -> RelayedFlows:
    """An account; with a rate, one that the worker limits itself."""
    flows = RelayedFlows(INSTANCE, NODE_ID)
    for flow in (flows.produce, flows.consume):
        if rate:
            flow.set_rate(rate, 0)
    return flows


def client_id_of(frame: bytes) -> str:
    (size,) = struct.unpack_from(">h", frame, 8)
    return frame[10 : 10 + size].decode()


@settings(max_examples=25, deadline=None)
@given(kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=8), listed=st.booleans())
def test_requests_go_up_under_the_name_of_their_quota_and_are_counted_whole(
    kinds: list[str], listed: bool
) -> None:
    sent = [framed_request(KINDS[kind], number, CLIENT_ID) for number, kind in enumerate(kinds, 1)]
    lists = {"secret": ("10.0.0.0/8",)} if listed else None
    for size in SIZES:
        relay = relayed()
        host = SessionHost(served_instance(lists), relay=relay)
        frames, seen, went = Frames(), 0, list[bytes]()
        cut(host.client_sends, b"".join(sent), size)
        while seen < len(host.up):
            up, seen = bytes(host.up[seen:]), len(host.up)
            new = frames.take(up)
            went += new
            cut(host.broker_sends, b"".join(map(brokers_reply, new)), size)
            if isinstance(host.session.requests.waits, HeldBack):  # behind another Fetch
                host.session.requests.let_go()
                host.client_sends(b"")
        for frame in went:
            (api_key,) = struct.unpack_from(">h", frame)
            expected = CLIENT_ID if api_key in OF_MEMBERS else f"{INSTANCE}@{NODE_ID}"
            assert client_id_of(frame) == expected
        produced = [frame for frame in sent if struct.unpack_from(">h", frame, 4)[0] == ApiKey.PRODUCE]
        assert relay.produce.used == sum(map(len, produced))
        assert relay.produce.requests == len(produced)
        numbers = [n for n, kind in enumerate(kinds, 1) if kind.startswith("fetch")]
        answers = [4 + len(one) for one in Frames().take(bytes(host.down)) if _correlation(one) in numbers]
        charged = sum(one.consume_bytes for one in host.around.charges)
        assert relay.consume.used + charged == sum(answers), "each byte once, here or where it was refused"


def _correlation(answer: bytes) -> int:
    number: int = struct.unpack_from(">i", answer)[0]
    return number


def test_a_frame_that_is_cut_is_charged_as_far_as_it_came() -> None:
    relay = relayed()
    host = SessionHost(served_instance(), relay=relay)
    host.client_sends(framed_request(produce(7, b"r" * 5_000), 1, None)[:3_000])
    host.session.closes()
    assert (relay.produce.used, relay.produce.overhead) == (0, 3_000)


def test_a_worker_that_limits_lets_nothing_up_until_what_was_carried_is_paid() -> None:
    relay = relayed(RATE)
    host = SessionHost(served_instance(), relay=relay)
    frame = framed_request(produce(7, b"r" * RATE), 1, None)
    host.client_sends(frame + frame)
    assert len(Frames().take(bytes(host.up))) == 1
    waits = host.session.requests.waits
    assert isinstance(waits, HeldBack) and host.session.requests.is_held_back
    assert relay.produce.used == len(frame), "the one that waits is not carried yet"
    debt_ms = (len(frame) - RATE // 4) * 1000 // RATE + 1
    for now_ms in (debt_ms - 1, debt_ms):
        host.around.time_ms = now_ms
        host.session.requests.let_go()
        host.client_sends(b"")
        assert len(Frames().take(bytes(host.up))) == (1 if now_ms < debt_ms else 2)


def test_a_client_that_leaves_while_its_request_waits_has_cost_nothing() -> None:
    relay = relayed(RATE)
    host = SessionHost(served_instance(), relay=relay)
    frame = framed_request(produce(7, b"r" * RATE), 1, None)
    host.client_sends(frame + frame)
    host.session.closes()
    assert (relay.produce.used, relay.produce.overhead) == (len(frame), 0)
    assert relay.produce.debt == len(frame) - RATE // 4


def test_who_has_not_logged_in_holds_nobody_up() -> None:
    relay = relayed(RATE)
    relay.produce.charge(RATE, 0)
    owed = relay.produce.debt
    host = SessionHost(served_instance(), relay=relay, security_protocol=SecurityProtocol.SASL_PLAINTEXT)
    with pytest.raises(ConnectionStop) as stopped:
        host.client_sends(framed_request(produce(7, b"r" * 5_000), 1, None))
    assert stopped.value.cause is DisconnectCause.NOT_AUTHENTICATED and relay.produce.debt == owed


def test_what_members_are_known_by_stays_and_coordinators_are_paid_here() -> None:
    relay = relayed()
    host = SessionHost(served_instance(), relay=relay)
    join = JoinGroupRequest(
        group_id="g",
        session_timeout=timedelta(seconds=6),
        rebalance_timeout=timedelta(seconds=6),
        member_id="",
        protocol_type="consumer",
        protocols=(),
    )
    host.client_sends(framed_request(join, 1, CLIENT_ID))
    [up] = Frames().take(bytes(host.up))
    assert client_id_of(up) == CLIENT_ID
    time = of_request(ApiKey.JOIN_GROUP)
    spent_us = time.coordinator_us + CONNECT_US
    assert (relay.engine.used, host.around.spent_us) == (time.threads_us, spent_us)
    assert time.coordinator_us > 0


def test_what_the_brokers_threads_do_is_reckoned_and_what_they_throttle_wants_more() -> None:
    relay = relayed()
    host = SessionHost(served_instance(), relay=relay)
    request_ = KINDS["metadata"]
    host.client_sends(framed_request(request_, 1, CLIENT_ID))
    assert relay.engine.used == of_request(ApiKey.METADATA).threads_us
    assert host.around.spent_us == CONNECT_US, "the connection's, which no quota of the broker sees"
    [up] = Frames().take(bytes(host.up))
    reply = raised(brokers_reply(up), ApiKey.METADATA, request_.__version__, 400)
    host.broker_sends(reply)
    assert relay.engine.used == of_request(ApiKey.METADATA).threads_us + of_answer_us(len(reply))
    assert relay.engine.throttled_ms == 400
    assert relay.traffic().engine.used == relay.engine.used
    _, answer = decode_response(Frames().take(bytes(host.down))[0], ApiKey.METADATA, request_.__version__)
    assert answer.throttle_time.total_seconds() == 0.4


def test_what_is_no_data_does_not_wait() -> None:
    relay = relayed(RATE)
    relay.produce.charge(100 * RATE, 0)
    relay.consume.charge(100 * RATE, 0)
    host = SessionHost(served_instance(), relay=relay)
    host.client_sends(framed_request(KINDS["heartbeat"], 1, None))
    assert host.session.requests.waits is None and len(Frames().take(bytes(host.up))) == 1


def test_a_worker_that_limits_has_one_fetch_under_way_and_tells_the_wait() -> None:
    relay = relayed(RATE)
    host = SessionHost(served_instance(), relay=relay)
    frame = framed_request(fetch(11, "orders"), 1, None)
    host.client_sends(frame + frame)
    [up] = Frames().take(bytes(host.up))
    relay.consume.charge(RATE, 0)  # another connection's answer
    owed_ms = relay.wait_ms(Direction.CONSUME, 0)
    assert owed_ms > 0
    host.broker_sends(brokers_reply(up))
    [down] = Frames().take(bytes(host.down))
    _, answer = decode_response(down, ApiKey.FETCH, 11)
    assert answer.throttle_time.total_seconds() * 1000 >= owed_ms
    host.around.time_ms = 10 * owed_ms
    host.session.requests.let_go()
    host.client_sends(b"")
    assert len(Frames().take(bytes(host.up))) == 2


@pytest.mark.parametrize(("key", "request_"), [(0, produce(7, b"r")), (1, fetch(11, "orders"))])
def test_what_the_broker_throttles_is_counted_and_passed_on(key: int, request_: Any) -> None:
    relay = relayed()
    host = SessionHost(served_instance(), relay=relay)
    host.client_sends(framed_request(request_, 1, None))
    [up] = Frames().take(bytes(host.up))
    version = request_.__version__
    host.broker_sends(raised(brokers_reply(up), key, version, 750))
    [down] = Frames().take(bytes(host.down))
    _, answer = decode_response(down, key, version)
    assert answer.throttle_time.total_seconds() == 0.75
    assert relay.flow(Direction.CONSUME if key else Direction.PRODUCE).throttled_ms == 750


@pytest.mark.parametrize(("version", "behaviour"), [(3, "reject"), (8, "reject"), (8, "stall")])
def test_a_full_instance_gets_what_our_brokers_would_answer(version: int, behaviour: str) -> None:
    served = served_instance()
    served.spec = replace(served.spec, full_behaviour=FullBehaviour(behaviour))
    message = full_message(INSTANCE, 11, 10)
    served.set_full(Full(message, served.spec.full_behaviour))
    relay = relayed()
    host = SessionHost(served, relay=relay)
    request = dataclasses.replace(produce(version, b"r" * 100), timeout=timedelta(seconds=1))
    frame = framed_request(request, 5, None)
    host.client_sends(frame)
    assert not host.up
    [down] = Frames().take(bytes(host.down))
    _, answer = decode_response(down, ApiKey.PRODUCE, version)
    [topic] = answer.responses
    expected = 44 if behaviour == "reject" else 7
    assert [int(one.error_code) for one in topic.partition_responses] == [expected] * 2
    assert {getattr(one, "error_message", message) for one in topic.partition_responses} == {message}
    [charged] = host.around.charges
    assert charged == ChargeRequest(
        produce_bytes=len(frame), reason="policy_violation" if behaviour == "reject" else "request_timed_out"
    )
    assert host.around.time_ms == (0 if behaviour == "reject" else 500), "half the producer's time-out"
    served.set_full(None)
    host.client_sends(frame)
    assert host.up


def test_a_full_instance_has_nobody_to_tell_without_acks() -> None:
    served = served_instance()
    served.set_full(Full("full", FullBehaviour.REJECT))
    host = SessionHost(served, relay=relayed())
    with pytest.raises(ConnectionStop) as stopped:
        host.client_sends(framed_request(produce(7, b"r", acks=0), 1, None))
    assert stopped.value.cause is DisconnectCause.ACKS_ZERO_REFUSED and not host.up


def _asks_metadata(relay: RelayedFlows, *, questions: int) -> tuple[SessionHost, bytes]:
    host = SessionHost(served_instance(), relay=relay)
    sent = b"".join(framed_request(KINDS["metadata"], number, CLIENT_ID) for number in range(questions))
    host.client_sends(sent)
    return host, sent


def test_what_an_instance_asks_goes_up_as_the_broker_has_room_over_all_its_connections() -> None:
    relay = relayed()
    hosts = [_asks_metadata(relay, questions=8)[0] for _ in range(3)]
    frames = [Frames() for _ in hosts]
    went = [each.take(bytes(host.up)) for host, each in zip(hosts, frames, strict=True)]
    assert list(map(len, went)) == [1, 0, 0], "what was never answered takes all the room"
    seen = [len(host.up) for host in hosts]
    most_us = 0
    while any(went):
        for host, new in zip(hosts, went, strict=True):
            for frame in new:
                host.broker_sends(brokers_reply(frame))
                most_us = max(most_us, relay.engine_room.under_way_us)
        for host in hosts:
            host.settle()
            host.client_sends(b"")
        went = [each.take(bytes(host.up[at:])) for host, each, at in zip(hosts, frames, seen, strict=True)]
        seen = [len(host.up) for host in hosts]
    assert [len(Frames().take(bytes(host.down))) for host in hosts] == [8, 8, 8]
    assert relay.engine_room.under_way_us == 0
    assert AT_ONCE_US // 2 < most_us <= AT_ONCE_US


def test_frames_in_pieces_get_no_more_of_the_room() -> None:
    relay = relayed()
    hosts = [SessionHost(served_instance(), relay=relay) for _ in range(3)]
    frame = framed_request(KINDS["metadata"], 1, CLIENT_ID)
    for host in hosts:
        host.client_sends(frame[:20])
    assert relay.engine_room.under_way_us == 0, "half a question keeps nobody waiting"
    for host in hosts:
        host.client_sends(frame[20:])
    assert [len(Frames().take(bytes(host.up))) for host in hosts] == [1, 0, 0]


def test_a_connection_that_ends_leaves_the_room_of_its_questions() -> None:
    relay = relayed()
    first, _ = _asks_metadata(relay, questions=1)
    second, _ = _asks_metadata(relay, questions=1)
    assert not second.up
    first.session.closes()
    second.settle()
    assert len(Frames().take(bytes(second.up))) == 1
    second.session.closes()
    assert relay.engine_room.under_way_us == 0


def test_what_may_rest_at_the_broker_needs_no_room() -> None:
    relay = relayed()
    _asks_metadata(relay, questions=1)
    assert relay.engine_room.under_way_us == AT_ONCE_US
    for kind in ("produce", "fetch"):
        host = SessionHost(served_instance(), relay=relay)
        host.client_sends(framed_request({"produce": produce(7, b"r"), "fetch": fetch(12)}[kind], 1, None))
        assert len(Frames().take(bytes(host.up))) == 1
