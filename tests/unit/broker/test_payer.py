"""Who pays for a connection, what its first frames wait for, and what frames that go wrong cost."""

from broker.requests.payer import FREE_FETCH_REQUEST_BYTES, Charged, Payer
from contracts.quota import InstanceTraffic
from contracts.specs import InstanceSpec, InstanceState
from traffic.flow import BURST_MS
from traffic.point import TrafficPoint

ID = "iabcdefghijk"
T = 100_000
BURST = T * BURST_MS // 1000


def _point() -> TrafficPoint:
    point = TrafficPoint(point="broker-1", node_id=1, cluster_id="c", boot_id="b", now_ms=0)
    spec = InstanceSpec(
        revision=1,
        instance_id=ID,
        tenant="t",
        name="n",
        state=InstanceState.ACTIVE,
        cluster_id="c",
        produce_rate_bytes_per_s=T,
        consume_rate_bytes_per_s=T,
        capacity_bytes=10**9,
    )
    point.set_spec(spec, 0)
    return point


def _told(point: TrafficPoint) -> InstanceTraffic:
    (listed,) = point.report(0, 0).instances
    return listed


def test_the_first_frame_of_a_connection_waits_and_later_ones_do_not() -> None:
    point = _point()
    point.charge_produce(ID, BURST + T, 0)
    payer = Payer(point, ID)
    wait = payer.admit(Charged.PRODUCE, 1_000, 0)
    assert wait is not None and wait(0) == 1_000 and wait(1_000) == 0
    reservation = payer.take_reservation()
    assert reservation is not None
    throttle_ms, mute = payer.charge_produce(1_000, reservation, 1_000)
    assert throttle_ms == 10 and mute is not None, "its own bytes are still to be paid"
    assert payer.admit(Charged.PRODUCE, 1_000, 1_000) is None


def test_connections_of_one_moment_are_served_one_after_the_other() -> None:
    point = _point()
    point.charge_produce(ID, BURST, 0)
    waits = [Payer(point, ID).admit(Charged.PRODUCE, T, 0) for _ in range(500)]
    assert waits[0] is None
    assert [wait(0) for wait in waits[1:] if wait is not None] == [1_000 * each for each in range(1, 500)]


def test_each_kind_of_frame_waits_for_its_own_bucket() -> None:
    point = _point()
    point.charge_produce(ID, 10**9, 0)
    payer = Payer(point, ID)
    assert payer.admit(Charged.INTERNAL, 1_000, 0) is None, "commits do not wait for produce"
    payer.charge_request(1_000, payer.take_reservation(), 0)
    assert payer.reserve(Charged.CONSUME, 1_000, 0) is not None
    assert payer.admit(Charged.PRODUCE, 1_000, 0) is not None


def test_coordinators_requests_are_charged_to_the_produce_rate_and_not_billed() -> None:
    point = _point()
    payer = Payer(point, ID)
    payer.charge_request(BURST, None, 0)
    point.charge_internal(ID, T, 0)
    throttle_ms, mute = payer.internal_debt(0)
    assert throttle_ms == 1_000 and mute is not None and mute(999) == 1
    assert point.charge_produce(ID, 0, 0) == 1_000, "producers pay for it, too"
    assert (_told(point).produce.used, _told(point).produce.overhead) == (0, BURST + T)


def test_what_came_of_a_cut_frame_is_charged_and_the_rest_is_given_back() -> None:
    point = _point()
    point.charge_produce(ID, BURST, 0)
    payer = Payer(point, ID)
    assert payer.admit(Charged.PRODUCE, 10**8, 0) is None
    payer.cut(Charged.PRODUCE, T, "client_reset", 0)
    assert point.charge_produce(ID, 0, 0) == 1_000
    assert _told(point).refusals == {"client_reset": 1}


def test_a_reservation_without_a_frame_costs_nothing() -> None:
    point = _point()
    payer = Payer(point, ID)
    payer.admit(Charged.PRODUCE, 10**8, 0)
    payer.withdraw(0)
    assert point.charge_produce(ID, BURST, 0) == 0


def test_large_fetch_requests_are_charged_and_not_billed() -> None:
    point = _point()
    payer = Payer(point, ID)
    payer.charge_fetch_request(FREE_FETCH_REQUEST_BYTES + 1, 0)
    assert (_told(point).consume.used, _told(point).consume.overhead) == (0, FREE_FETCH_REQUEST_BYTES + 1)


def test_what_a_gateway_answers_itself_waits_only_at_first() -> None:
    point = _point()
    payer = Payer(point, ID)
    before, debt = payer.charge_answered(Charged.PRODUCE, BURST + T, 0)
    assert before is not None and before.remaining_ms(0) == 0
    assert debt.remaining_ms(0) == 1_000
    assert payer.charge_answered(Charged.PRODUCE, T, 0)[0] is None
    other = Payer(point, ID).charge_answered(Charged.PRODUCE, 1, 0)[0]
    assert other is not None and other.remaining_ms(0) == 2_000
    assert _told(point).produce.used == BURST + 2 * T + 1
