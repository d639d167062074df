"""The life cycle's table, timeouts, version lists, creation rules, settings, built answers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from contracts.specs import Limits
from contracts.topic_policy import partitions_fault
from gateway.apis import APIS, Mode
from gateway.causes import DisconnectCause
from gateway.config import GatewayConfig, Timeouts
from gateway.handlers.api_versions import features, offered
from gateway.rules.lifecycle import TRANSITIONS, Event, Phase, next_phase
from gateway.session.states import Event as Move
from gateway.session.states import Sides
from gateway.session.timers import Window
from wire.api_table import GROUP_VERSION, TRANSACTION_VERSION, ApiKey, Served, version_range
from wire.build import response, with_entries


def test_every_phase_is_reached_and_only_stopped_is_final() -> None:
    reached = {Phase.INITIALIZING} | set(TRANSITIONS.values())
    left = {phase for phase, _ in TRANSITIONS}
    assert reached == set(Phase) and left == set(Phase) - {Phase.STOPPED}


def test_an_impossible_event_is_an_error() -> None:
    with pytest.raises(KeyError):
        next_phase(Phase.STOPPED, Event.BOUND)


TIMEOUTS = Timeouts(first_byte_ms=10, frame_ms=30, connect_ms=20, drain_ms=15, idle_ms=1000)


class _Watched:
    """A session that is looked at now and then."""

    def __init__(self, **state: Any) -> None:
        self.window = Window(0)
        self.window.bytes, self.window.frames = 1, 1
        self.window.in_frame = state.pop("mark_in_frame", False)
        self.sides = Sides()
        if "upstream_held" in state:
            self.sides.upstream_moves(Move.DIALS)
            if not state.pop("upstream_held"):
                self.sides.upstream_moves(Move.CONNECTS)
        if state.pop("client_ended", False):
            self.sides.client_moves(Move.ENDS)
        if state.pop("upstream_ended", False):
            for move in (Move.DIALS, Move.CONNECTS, Move.ENDS):
                self.sides.upstream_moves(move)
        self.host = {
            "host_waits": state.pop("client_waits", False) or state.pop("upstream_waits", False),
            "reads_client": state.pop("reading_client", True),
            "unanswered": len(state.pop("queue", ())),
        }
        received = {"bytes_in": 1, "frames": 1, "frame_bytes": 0, "in_frame": False, "is_held_back": False}
        assert state.keys() <= received.keys()
        self.received: Any = SimpleNamespace(**(received | state))


def overdue(watched: _Watched, timeouts: Timeouts, now_ms: int) -> DisconnectCause | None:
    return watched.window.overdue(watched.received, watched.sides, timeouts, now_ms, **watched.host)


@pytest.mark.parametrize(
    ("state", "after_ms", "cause"),
    [
        ({"bytes_in": 0, "frames": 0}, 9, None),
        ({"bytes_in": 0, "frames": 0}, 10, DisconnectCause.FIRST_BYTE_TIMEOUT),
        ({"bytes_in": 3, "frames": 0, "in_frame": True}, 10, DisconnectCause.FIRST_BYTE_TIMEOUT),
        ({"in_frame": True, "mark_in_frame": True}, 29, None),
        ({"in_frame": True, "mark_in_frame": True}, 30, DisconnectCause.FRAME_TIMEOUT),
        ({"in_frame": True, "mark_in_frame": True, "bytes_in": 1000}, 30, DisconnectCause.FRAME_TIMEOUT),
        ({"in_frame": True, "mark_in_frame": True, "bytes_in": 1025}, 30, None),
        ({"in_frame": True, "mark_in_frame": True, "frames": 2}, 30, None),
        ({"in_frame": True, "mark_in_frame": True, "reading_client": False}, 9999, None),
        ({"in_frame": True}, 999, None),  # the frame began just now, after a long silence
        ({}, 999, None),
        ({}, 1000, DisconnectCause.IDLE_TIMEOUT),
        ({"queue": (1,)}, 1000, None),
        ({"upstream_held": True}, 20, DisconnectCause.UPSTREAM_UNREACHABLE),
        ({"upstream_held": False}, 20, None),
        ({"client_ended": True}, 14, None),
        ({"client_ended": True}, 15, DisconnectCause.DRAIN_TIMEOUT),
        ({"upstream_ended": True}, 15, DisconnectCause.DRAIN_TIMEOUT),
        ({"frames": 0, "client_waits": True}, 9999, None),  # it has to wait for its turn
        ({"client_ended": True, "upstream_waits": True}, 9999, None),
    ],
)
def test_overdue(state: dict[str, Any], after_ms: int, cause: DisconnectCause | None) -> None:
    assert overdue(_Watched(**state), TIMEOUTS, after_ms) is cause


def test_progress_begins_a_new_window() -> None:
    connection = _Watched(in_frame=True, mark_in_frame=True, bytes_in=2000)
    assert overdue(connection, TIMEOUTS, 29) is None
    assert overdue(connection, TIMEOUTS, 58) is None
    assert overdue(connection, TIMEOUTS, 59) is DisconnectCause.FRAME_TIMEOUT


def test_a_large_frame_that_drips_ends_in_bounded_time() -> None:
    """At little more than 1 KB in a window it was progress, and 16 MB took five days."""
    timeouts = Timeouts()
    window_bytes = 16_000_000 * timeouts.frame_ms // timeouts.frame_time_max_ms
    for per_window, cause in ((2_000, DisconnectCause.FRAME_TIMEOUT), (window_bytes + 2, None)):
        state = {"in_frame": True, "mark_in_frame": True, "frame_bytes": 16_000_000}
        connection = _Watched(**state, bytes_in=per_window)
        assert overdue(connection, timeouts, timeouts.frame_ms) is cause


def _offers(backend: dict[int, Any], *, legacy_clients: bool = False) -> dict[int, tuple[int, int]]:
    offers = offered(backend, legacy_clients=legacy_clients)
    return {offer["api_key"]: (offer["min_version"], offer["max_version"]) for offer in offers}


@pytest.mark.parametrize(
    ("backend", "version", "finalized", "supported"),
    [
        ({}, 4, [], []),
        ({GROUP_VERSION: 0, "metadata.version": 29}, 4, [], []),
        ({GROUP_VERSION: 1, TRANSACTION_VERSION: 2}, 2, [], []),
        ({GROUP_VERSION: 1}, 3, [(GROUP_VERSION, 1)], []),
        ({GROUP_VERSION: 7, "share.version": 1}, 4, [(GROUP_VERSION, 1)], [(GROUP_VERSION, 0, 1)]),
        ({TRANSACTION_VERSION: 1}, 4, [(TRANSACTION_VERSION, 1)], [(TRANSACTION_VERSION, 0, 1)]),
        ({TRANSACTION_VERSION: 3}, 4, [(TRANSACTION_VERSION, 2)], [(TRANSACTION_VERSION, 0, 2)]),
    ],
)
def test_features_are_told_as_far_as_they_are_true(
    backend: dict[str, int],
    version: int,
    finalized: list[tuple[str, int]],
    supported: list[tuple[str, int, int]],
) -> None:
    told: Any = response(ApiKey.API_VERSIONS, version, **features(Served({}, backend), version))
    assert [
        (each.name, each.max_version_level) for each in getattr(told, "finalized_features", ())
    ] == finalized
    assert [
        (each.name, each.min_version, each.max_version) for each in getattr(told, "supported_features", ())
    ] == supported


def test_what_the_backend_serves_less_is_offered_less() -> None:
    offers = _offers(
        {
            ApiKey.PRODUCE: version_range(0, 14),
            ApiKey.FETCH: version_range(6, 9),
            ApiKey.METADATA: version_range(14, 15),
        }
    )
    assert offers[ApiKey.PRODUCE] == (0, 13)
    assert offers[ApiKey.FETCH] == (6, 9)
    assert ApiKey.METADATA not in offers and ApiKey.JOIN_GROUP not in offers


def test_what_is_answered_here_needs_no_backend() -> None:
    assert set(_offers({})) == {key for key, row in APIS.items() if row.mode is Mode.LOCAL}


def test_old_versions_are_offered_where_the_instance_has_them() -> None:
    everything = {key: version_range(0, 20) for key in APIS}
    plain, legacy = _offers(everything), _offers(everything, legacy_clients=True)
    assert {key: legacy[key] for key in legacy if legacy[key] != plain[key]} == {
        ApiKey.FETCH: (0, 18),
        ApiKey.LIST_OFFSETS: (0, 11),
    }
    newer = {ApiKey.FETCH: version_range(4, 11), ApiKey.PRODUCE: version_range(3, 9)}
    assert _offers(newer, legacy_clients=True)[ApiKey.FETCH] == (4, 11)
    assert _offers(newer, legacy_clients=True)[ApiKey.PRODUCE] == (3, 9)


def test_produce_0_and_join_group_0_are_advertised() -> None:
    everything = {key: version_range(0, 20) for key in APIS}
    offers = _offers(everything)
    assert offers[ApiKey.PRODUCE][0] == 0 and offers[ApiKey.JOIN_GROUP][0] == 0


def test_partition_limit_has_the_numbers() -> None:
    assert partitions_fault(298, 2, Limits(partitions_max=300)) is None
    assert partitions_fault(298, 3, Limits(partitions_max=300)) == (
        "the instance has 298 of at most 300 partitions; 3 more do not fit"
    )


def test_settings_are_checked_together() -> None:
    assert GatewayConfig(name="gateway-1", specs_file=Path("x")).faults() == []
    assert len(GatewayConfig(name="gateway", control_url="http://x").faults()) == 2
    assert len(GatewayConfig(name="gateway-999").faults()) == 2


def test_answers_leave_out_what_a_version_does_not_have() -> None:
    old = response(
        ApiKey.CREATE_TOPICS, 2, topics=[{"name": "a", "error_code": ErrorCode.none, "topic_id": None}]
    )
    assert old.topics[0].name == "a" and old.topics[0].error_message is None
    new = with_entries(response(ApiKey.CREATE_TOPICS, 7), "topics", [{"name": "b"}])
    assert [topic.name for topic in new.topics] == ["b"]
