"""The rate at which an instance creates and deletes partitions: entries, versions, waits, who shares it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from kio.schema.errors import ErrorCode

from contracts.specs import Limits
from gateway.mutation_bucket import MutationBucket, Outcome
from gateway.session.requests import HeldBack
from gateway.shared_buckets import SharedBuckets
from tests.unit.gateway.session_host import (
    Frames,
    SessionHost,
    brokers_reply,
    decoded_request,
    served_instance,
)
from traffic.mutation_rate import MutationRate
from wire.api_table import ApiKey
from wire.build import build, response
from wire.codec import decode_response, framed_request, framed_response, milliseconds, request_class

RATE = 10
BURST = 110
NONE, QUOTA = ErrorCode.none, ErrorCode.throttling_quota_exceeded


def host(rate: int = RATE, *, auto_create_topics: bool = False) -> SessionHost:
    served = served_instance()
    limits = Limits(partitions_max=10_000, controller_mutation_rate_max=rate)
    served.apply(msgspec.structs.replace(served.spec, limits=limits, auto_create_topics=auto_create_topics))
    return SessionHost(served)


def asks(session: SessionHost, key: ApiKey, version: int, **known: Any) -> Any:
    """What the client is answered; what goes up, the broker does."""
    down, up = len(session.down), len(session.up)
    session.client_sends(framed_request(build(request_class(key, version), known), 7, "client"))
    for frame in Frames().take(bytes(session.up[up:])):
        session.broker_sends(_does(session, frame))
    (answer,) = Frames().take(bytes(session.down[down:]))
    return decode_response(answer, key, version)[1]


def _does(session: SessionHost, frame: bytes) -> bytes:
    api_key, version, correlation_id, request = decoded_request(frame)
    if api_key != ApiKey.DELETE_TOPICS:
        return brokers_reply(frame)
    names = request.topic_names if version < 6 else [topic.name for topic in request.topics]
    for name in names:
        session.around.topics.pop(name.partition(".")[2], None)
    return framed_response(
        response(api_key, version, responses=[{"name": each} for each in names]), correlation_id
    )


def creates(session: SessionHost, version: int = 7, *, validate_only: bool = False, **topics: int) -> Any:
    wanted = [
        {"name": name, "num_partitions": partitions, "replication_factor": -1}
        for name, partitions in topics.items()
    ]
    return asks(session, ApiKey.CREATE_TOPICS, version, topics=wanted, validate_only=validate_only)


def codes(entries: Any) -> dict[str, ErrorCode]:
    return {entry.name: entry.error_code for entry in entries}


def test_entries_beyond_the_bucket_are_refused_and_others_go_on() -> None:
    session = host()
    answer = creates(session, a=100, b=30, c=1)
    assert codes(answer.topics) == {"a": NONE, "b": NONE, "c": QUOTA}
    assert milliseconds(answer.throttle_time) == (130 - BURST) * 1000 // RATE
    (refused,) = (topic for topic in answer.topics if topic.name == "c")
    assert refused.error_message == (
        "the instance creates and deletes 10 partitions a second at most (controller_mutation_rate_max), "
        "and is ahead of that: try again in 2 seconds"
    )
    assert session.around.topics == {"a": 100, "b": 30}
    assert session.served.mutations == {Outcome.CHARGED: 130, Outcome.REFUSED: 1}


def test_when_the_time_that_was_told_is_over_it_may_be_had() -> None:
    session = host()
    assert codes(creates(session, a=130, c=1).topics)["c"] is QUOTA
    session.around.time_ms += 2_000
    assert codes(creates(session, c=1).topics) == {"c": NONE}


@pytest.mark.parametrize("version", [2, 5])
def test_old_clients_get_all_and_are_told_to_wait(version: int) -> None:
    session = host()
    answer = creates(session, version, a=BURST, b=10, c=20)
    assert codes(answer.topics) == {"a": NONE, "b": NONE, "c": NONE}
    assert milliseconds(answer.throttle_time) == 3_000
    assert session.served.mutations == {Outcome.CHARGED: 120, Outcome.THROTTLED: 20}


@pytest.mark.parametrize("version", [2, 5])
def test_old_clients_begin_nothing_while_the_instance_is_in_debt(version: int) -> None:
    """Whoever comes by another connection would not be held back by the one that was told to wait."""
    session = host()
    session.around.mutations.charge(BURST + 20)
    began_ms = session.around.time_ms
    assert codes(creates(session, version, a=5).topics) == {"a": NONE}
    assert session.around.time_ms == began_ms + 2_000
    session.around.time_ms += 500
    session.around.mutations.charge(20)
    asks(session, ApiKey.DELETE_TOPICS, 4, topic_names=["a"])
    assert session.around.time_ms == began_ms + 2_500 + 2_000
    assert session.served.mutations == {Outcome.CHARGED: BURST + 50}


@pytest.mark.parametrize("version", [2, 7])
def test_a_connection_that_was_told_to_wait_is_not_read_meanwhile(version: int) -> None:
    session = host()
    creates(session, version, a=BURST + 10, b=1)
    waited_ms = 1_000 if version == 7 else 1_100
    down = len(session.down)
    listing = framed_request(build(request_class(ApiKey.METADATA, 1), {"topics": None}), 8, "client")
    session.client_sends(listing)
    assert session.session.requests.waits == HeldBack(waited_ms) and len(session.down) == down
    session.around.time_ms += waited_ms
    session.session.requests.let_go()
    up = len(session.up)
    session.client_sends(b"")
    assert len(session.up) > up


def test_what_is_told_is_half_a_minute_at_most_and_the_debt_stays() -> None:
    session = host()
    assert milliseconds(creates(session, 5, a=BURST + 1_000).throttle_time) == 30_000
    session.around.time_ms += 30_000
    assert session.around.mutations.wait_ms() == 70_000


def test_one_of_any_size_may_be_made_by_who_is_not_in_debt() -> None:
    session = host(rate=1)
    answer = creates(session, a=5_000)
    assert codes(answer.topics) == {"a": NONE} and not answer.throttle_time


def test_a_look_whether_it_could_be_costs_nothing() -> None:
    session = host()
    creates(session, a=BURST + 1)
    answer = creates(session, validate_only=True, b=5_000)
    assert codes(answer.topics) == {"b": NONE} and not answer.throttle_time
    assert session.served.mutations == {Outcome.CHARGED: BURST + 1}


def test_topics_that_are_there_and_those_that_fail_cost_nothing() -> None:
    session = host()
    session.around.topics = {"there": 5}
    created = session.around.ask_controller

    async def refuses(request: Any) -> Any:
        await created(request)
        refused = [{"name": topic.name, "error_code": ErrorCode.invalid_config} for topic in request.topics]
        return response(ApiKey.CREATE_TOPICS, request.__version__, topics=refused)

    session.around.ask_controller = refuses  # type: ignore[method-assign]
    creates(session, there=5, wrong=BURST + 50)
    assert session.around.mutations.wait_ms() == 0
    assert session.served.mutations == {Outcome.CHARGED: BURST + 50, Outcome.RETURNED: BURST + 50}


@pytest.mark.parametrize(("version", "code"), [(2, NONE), (3, QUOTA)])
def test_added_partitions_count(version: int, code: ErrorCode) -> None:
    session = host()
    session.around.topics = {"a": 10, "b": 5}
    wanted = [
        {"name": "a", "count": BURST + 20, "assignments": None},
        {"name": "b", "count": 6, "assignments": None},
    ]
    answer = asks(session, ApiKey.CREATE_PARTITIONS, version, topics=wanted, validate_only=False)
    assert codes(answer.results) == {"a": NONE, "b": code}
    assert milliseconds(answer.throttle_time) == (1_000 if code is QUOTA else 1_100)


@pytest.mark.parametrize(("version", "code"), [(4, NONE), (5, QUOTA), (6, QUOTA)])
def test_deleted_partitions_count(version: int, code: ErrorCode) -> None:
    session = host()
    session.around.topics = {"a": BURST + 10, "b": 5}
    known: dict[str, Any] = {"topic_names": ["a", "b", "nobody"]}
    if version == 6:
        known = {"topics": [{"name": name} for name in known["topic_names"]]}
    answer = asks(session, ApiKey.DELETE_TOPICS, version, **known)
    assert codes(answer.responses) == {"a": NONE, "b": code, "nobody": NONE}
    assert milliseconds(answer.throttle_time) == (1_000 if code is QUOTA else 1_500)
    assert session.around.topics == ({"b": 5} if code is QUOTA else {})


def test_who_is_in_debt_is_refused_without_a_list_of_all_that_he_has() -> None:
    session = host()
    creates(session, a=BURST + 10)

    async def counts() -> dict[str, int]:
        raise AssertionError("nobody has to know")

    session.around.partition_counts = counts  # type: ignore[method-assign]
    assert codes(creates(session, a=5, b=5).topics) == {"a": NONE, "b": QUOTA}


def test_all_that_is_to_be_deleted_may_be_refused() -> None:
    session = host()
    session.around.topics = {"a": 3}
    creates(session, b=BURST + 10)
    up = len(session.up)
    answer = asks(session, ApiKey.DELETE_TOPICS, 6, topics=[{"name": "a"}])
    assert codes(answer.responses) == {"a": QUOTA} and milliseconds(answer.throttle_time) == 1_000
    assert len(session.up) == up


def test_what_a_broker_does_not_delete_costs_nothing() -> None:
    session = host()
    session.around.topics = {"a": BURST + 10}
    session.client_sends(
        framed_request(
            build(request_class(ApiKey.DELETE_TOPICS, 6), {"topics": [{"name": "a"}]}), 7, "client"
        )
    )
    assert session.around.mutations.wait_ms() == 1_000
    refused = [{"name": "iaaaaaaaaaaa.a", "error_code": ErrorCode.not_controller}]
    session.broker_sends(framed_response(response(ApiKey.DELETE_TOPICS, 6, responses=refused), 7))
    assert session.around.mutations.wait_ms() == 0


def test_first_uses_of_topics_make_them_within_the_rate() -> None:
    session = host(rate=1, auto_create_topics=True)
    wanted = [{"name": f"t{number:02}"} for number in range(20)]
    asks(session, ApiKey.METADATA, 8, topics=wanted, allow_auto_topic_creation=True)
    assert len(session.around.topics) == 12, "eleven that are there, and one into debt"
    session.around.time_ms += 1_000
    asks(session, ApiKey.METADATA, 8, topics=wanted, allow_auto_topic_creation=True)
    assert len(session.around.topics) == 13


# -- who shares it ---------------------------------------------------------------------------------------


def _bucket(buckets: SharedBuckets) -> MutationBucket:
    return MutationBucket(served_instance(), buckets, lambda _limits: MutationRate(RATE), lambda: 0)


def test_workers_of_a_machine_share_a_bucket_and_a_successor_finds_the_debt(tmp_path: Path) -> None:
    one, two = (SharedBuckets(tmp_path / "own" / "table", "this run") for _ in range(2))
    _bucket(one).charge(BURST)
    assert _bucket(two).wait_ms() == 0
    _bucket(two).charge(5)
    assert _bucket(one).wait_ms() == 500
    one.close()
    two.close()
    assert _bucket(SharedBuckets(tmp_path / "own" / "table", "this run")).wait_ms() == 500


def test_another_run_of_the_machine_has_another_clock(tmp_path: Path) -> None:
    _bucket(SharedBuckets(tmp_path / "table", "this run")).charge(BURST + 10)
    assert _bucket(SharedBuckets(tmp_path / "table", "the next")).wait_ms() == 0


def test_more_buckets_than_there_is_room_for_forget_the_one_that_is_full_first() -> None:
    buckets = SharedBuckets(None, "")
    names = [f"i{number:011}" for number in range(20_000)]
    for full_at_us, name in enumerate(names, 1):
        buckets.set(name, full_at_us)
    kept = [at for at, name in enumerate(names, 1) if buckets.full_at_us(name)]
    assert len(kept) == 256 * 32
    assert all(buckets.full_at_us(names[at - 1]) == at for at in kept)
    assert buckets.full_at_us(names[-1]) == len(names)


def test_instances_have_buckets_of_their_own() -> None:
    buckets = SharedBuckets(None, "")
    buckets.set("ibbbbbbbbbbb", 10**12)
    assert _bucket(buckets).wait_ms() == 0
