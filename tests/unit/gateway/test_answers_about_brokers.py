"""Questions that depend on which Kafka stands behind, or that it would refuse: what goes up, what is said."""

from typing import Any

import msgspec
import pytest
from kio.schema.errors import ErrorCode

from contracts.specs import Engine
from gateway.handlers import metadata
from tests.unit.gateway.session_host import (
    INSTANCE,
    NODE_ID,
    Frames,
    SessionHost,
    Surroundings,
    decoded_request,
    served_instance,
)
from wire.api_table import ApiKey, Served, version_range
from wire.build import build, entry_class, response
from wire.codec import decode_response, framed_request, request_class
from wire.faults import TooManyEntries

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32


def _answer(host: SessionHost, api_key: int, version: int) -> Any:
    [frame] = Frames().take(bytes(host.down))
    return decode_response(frame, api_key, version)[1]


def _asked(host: SessionHost, *resources: tuple[int, str], version: int = 4) -> list[tuple[int, str]]:
    """Have resources described; those that went up."""
    named = [{"resource_type": kind, "resource_name": name} for kind, name in resources]
    request = build(request_class(ApiKey.DESCRIBE_CONFIGS, version), {"resources": named})
    host.client_sends(framed_request(request, 5, "admin"))
    frames = Frames().take(bytes(host.up))
    return [
        (each.resource_type, each.resource_name)
        for one in frames
        for each in decoded_request(one)[3].resources
    ]


@pytest.mark.parametrize(
    ("engine", "lowest", "goes_up"),
    [(Engine.BUILTIN, 0, True), (Engine.APACHE, 1, True), (Engine.APACHE, 0, False)],
)
def test_groups_are_asked_about_where_they_have_configs(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, lowest: int, goes_up: bool
) -> None:
    """Apache Kafka 3.9, which serves version 0 still, refuses the whole request for one group."""
    served = Served({int(ApiKey.DESCRIBE_CONFIGS): version_range(lowest, 4)})
    monkeypatch.setattr(Surroundings, "known_versions", lambda *_: served)
    host = SessionHost(served_instance())
    host.around.spec = msgspec.structs.replace(host.around.spec, engine=engine)
    up = _asked(host, (TOPIC, "orders"), (GROUP, "workers"))
    assert [kind for kind, _ in up] == ([TOPIC, GROUP] if goes_up else [TOPIC])


def test_a_group_alone_is_an_unknown_type_there(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served({int(ApiKey.DESCRIBE_CONFIGS): version_range(0, 4)})
    monkeypatch.setattr(Surroundings, "known_versions", lambda *_: served)
    host = SessionHost(served_instance())
    host.around.spec = msgspec.structs.replace(host.around.spec, engine=Engine.APACHE)
    assert not _asked(host, (GROUP, "workers"), (GROUP, ""))
    results = _answer(host, ApiKey.DESCRIBE_CONFIGS, 4).results
    assert [one.error_code for one in results] == [ErrorCode.invalid_request] * 2


@pytest.mark.parametrize("index", [-1, 0])
def test_all_topics_from_a_partition_that_cannot_be(index: int) -> None:
    host = SessionHost(served_instance())
    host.around.topics = {"orders": 1}
    kind = request_class(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    cursor = build(entry_class(kind, "cursor"), {"topic_name": "a", "partition_index": index})
    request = build(kind, {"topics": [], "response_partition_limit": 10, "cursor": cursor})
    host.client_sends(framed_request(request, 5, "admin"))
    assert bool(host.up) == (index >= 0)
    if index < 0:
        assert _answer(host, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0).topics == ()


def test_the_same_topics_are_asked_for_by_a_request_that_was_made_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On an Apache Kafka all topics of an instance are hundreds of names. Made anew for each asker,
    they hold the worker's loop for a millisecond, and neighbours with it."""
    made: list[int] = []
    with_entries = metadata.with_entries
    monkeypatch.setattr(
        metadata, "with_entries", lambda *args: [made.append(len(args[2])), with_entries(*args)][1]
    )
    host = SessionHost(served_instance())
    host.around.spec = msgspec.structs.replace(host.around.spec, engine=Engine.APACHE)
    host.around.topics = {f"orders-{number}": 1 for number in range(200)}

    def asked(version: int, **flags: bool) -> list[str]:
        before = len(host.up)
        known = {"topics": None, "allow_auto_topic_creation": False, **flags}
        request = build(request_class(ApiKey.METADATA, version), known)
        host.client_sends(framed_request(request, 5, "admin"))
        (frame,) = Frames().take(bytes(host.up[before:]))
        return [topic.name for topic in decoded_request(frame)[3].topics]

    every = [f"{INSTANCE}.{name}" for name in sorted(host.around.topics)]
    assert [asked(4), asked(4), asked(4)] == [every] * 3
    assert made == [200]
    assert asked(9, include_topic_authorized_operations=True) == every
    assert asked(9, include_topic_authorized_operations=False) == every
    assert asked(4) == every
    assert made == [200] * 3, "each form once"
    del host.around.topics["orders-7"]
    assert asked(4) == [name for name in every if not name.endswith("-7")]
    assert made == [200] * 3 + [199]


@pytest.mark.parametrize("version", [1, 4])
def test_configs_of_ten_thousand_topics_are_asked_for_and_answered_in_portions(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """`kafka-topics --describe` names all topics in one request. Refused, it says nothing for a minute."""
    asked: list[int] = []

    async def ask_any(_: Surroundings, request: Any) -> Any:
        asked.append(len(request.resources))
        told = [
            {
                "resource_type": each.resource_type,
                "resource_name": each.resource_name,
                "configs": [{"name": "mine", "value": each.resource_name}],
            }
            for each in request.resources
        ]
        return response(ApiKey.DESCRIBE_CONFIGS, version, results=told)

    monkeypatch.setattr(Surroundings, "ask_any", ask_any)
    topics = [f"orders-{number}" for number in range(10_000)]
    hidden = topics[777]
    host = SessionHost(served_instance(topic_whitelists={hidden: ("10.9.8.0/24",)}))
    others = [(BROKER, str(NODE_ID)), (LOGGER, str(NODE_ID)), (TOPIC, topics[5])]
    assert not _asked(host, *((TOPIC, name) for name in topics), *others, version=version)
    results = _answer(host, ApiKey.DESCRIBE_CONFIGS, version).results
    assert sum(asked) == len(topics) - 1
    assert max(asked) <= 50
    told = {(one.resource_type, one.resource_name): one for one in results}
    assert len(results) == len(told) == len(topics) + 2
    for name in topics:
        one = told[TOPIC, name]
        assert [each.value for each in one.configs] == ([] if name == hidden else [name])
    assert told[TOPIC, hidden].error_code is ErrorCode.topic_authorization_failed
    assert told[LOGGER, str(NODE_ID)].error_code is ErrorCode.cluster_authorization_failed
    assert told[BROKER, str(NODE_ID)].configs


def test_beyond_that_the_connection_ends() -> None:
    host = SessionHost(served_instance())
    with pytest.raises(TooManyEntries):
        _asked(host, *((TOPIC, f"orders-{number}") for number in range(10_501)))
