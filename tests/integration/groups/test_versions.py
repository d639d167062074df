"""Every version of every group API, through a whole life of a group, on the wire."""

import datetime
import time
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta, i64Timedelta

from tests.integration.broker.process import BrokerProcess
from tests.integration.broker.raw import RawClient, create_topic, request
from tests.unit.groups.world import subscription
from wire.api_table import ApiKey

_TOPIC = "group-versions"
_NOBODYS = UUID(int=0xAA)


def _name(topic: Any) -> Any:
    """What an answer calls a topic."""
    return topic.name if hasattr(topic, "name") else topic.topic_id


def _ms(value_ms: int) -> i32Timedelta:
    return i32Timedelta.parse(datetime.timedelta(milliseconds=value_ms))


@pytest.fixture(scope="module")
def topic(broker: BrokerProcess) -> str:
    with RawClient(broker.port) as client:
        create_topic(client, _TOPIC, 3)
    return _TOPIC


def _join(client: RawClient, version: int, group: str, member_id: str = "", **changes: Any) -> Any:
    values = {
        "group_id": group,
        "session_timeout": _ms(10_000),
        "rebalance_timeout": _ms(10_000),
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription(_TOPIC)}],
    }
    return client.call(request(ApiKey.JOIN_GROUP, version, **(values | changes)))


def _member(client: RawClient, group: str, version: int = 5) -> Any:
    """A new member, joined, with the newest way to join that needs no member id first."""
    answer = _join(client, version, group)
    if answer.error_code is ErrorCode.member_id_required:
        answer = _join(client, version, group, answer.member_id)
    assert answer.error_code is ErrorCode.none
    return answer


def _sync(client: RawClient, version: int, group: str, joined: Any, **changes: Any) -> Any:
    values = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": joined.member_id, "assignment": b"ours"}],
    }
    return client.call(request(ApiKey.SYNC_GROUP, version, **(values | changes)))


def _stable(client: RawClient, group: str) -> Any:
    joined = _member(client, group)
    assert _sync(client, 3, group, joined).assignment == b"ours"
    return joined


def _commit(client: RawClient, version: int, group: str, offset: int, **changes: Any) -> Any:
    partition = {
        "partition_index": 1,
        "committed_offset": offset,
        "committed_leader_epoch": 0,
        "committed_metadata": f"note {offset}",
    }
    values = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "retention_time": i64Timedelta.parse(datetime.timedelta(milliseconds=-1)),
        "topics": [_named(client, version, 10, _TOPIC) | {"partitions": [partition]}],
    }
    return client.call(request(ApiKey.OFFSET_COMMIT, version, **(values | changes)))


def _named(client: RawClient, version: int, ids_from: int, name: str) -> dict[str, Any]:
    """A topic as a version names it."""
    if version < ids_from:
        return {"name": name}
    asked = request(ApiKey.METADATA, 12, topics=[{"topic_id": None, "name": name}])
    (topic,) = client.call(asked).topics
    return {"topic_id": topic.topic_id or _NOBODYS}


def _fetch(client: RawClient, version: int, group: str, topics: Any = None) -> Any:
    """The only group of an answer, or the answer of a version that has no groups."""
    if topics is None and version < 2:
        topics = [{"name": _TOPIC, "partition_indexes": (1,)}]
    if version < 8:
        return client.call(
            request(ApiKey.OFFSET_FETCH, version, group_id=group, topics=topics, require_stable=True)
        )
    member = {"member_id": "whoever", "member_epoch": 5} if version >= 9 else {}
    groups = [{"group_id": group, "topics": topics, **member}]
    (only,) = client.call(request(ApiKey.OFFSET_FETCH, version, groups=groups, require_stable=True)).groups
    assert only.group_id == group
    return only


@pytest.mark.parametrize("version", range(10))
def test_join_group(raw: RawClient, topic: str, version: int) -> None:
    group = f"join-{version}"
    first = _join(raw, version, group)
    if version >= 4:
        assert first.error_code is ErrorCode.member_id_required
        first = _join(raw, version, group, first.member_id)
    assert first.error_code is ErrorCode.none
    assert first.generation_id == 1
    assert first.leader == first.member_id
    assert first.protocol_name == "range"
    assert [(member.member_id, member.metadata) for member in first.members] == [
        (first.member_id, subscription(_TOPIC))
    ]
    if version >= 7:
        assert first.protocol_type == "consumer"


@pytest.mark.parametrize("version", range(10))
def test_join_group_refused(raw: RawClient, version: int) -> None:
    answer = _join(raw, version, f"refused-{version}", session_timeout=_ms(5))
    assert answer.error_code is ErrorCode.invalid_session_timeout
    assert answer.protocol_name == (None if version >= 7 else "")
    assert _join(raw, version, "").error_code is ErrorCode.invalid_group_id
    assert _join(raw, version, "refused", "made-up").error_code is ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", range(6))
def test_sync_group(raw: RawClient, topic: str, version: int) -> None:
    group = f"sync-{version}"
    joined = _member(raw, group)
    answer = _sync(raw, version, group, joined)
    assert answer.error_code is ErrorCode.none
    assert answer.assignment == b"ours"
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
        wrong = _sync(raw, version, group, joined, protocol_name="sticky")
        assert wrong.error_code is ErrorCode.inconsistent_group_protocol
        assert wrong.protocol_name is None


@pytest.mark.parametrize("version", range(5))
def test_heartbeat(raw: RawClient, topic: str, version: int) -> None:
    group = f"heartbeat-{version}"
    joined = _stable(raw, group)

    def beat(generation_id: int) -> ErrorCode:
        return raw.call(
            request(
                ApiKey.HEARTBEAT,
                version,
                group_id=group,
                generation_id=generation_id,
                member_id=joined.member_id,
                group_instance_id=None,
            )
        ).error_code

    assert beat(1) is ErrorCode.none
    assert beat(2) is ErrorCode.illegal_generation


@pytest.mark.parametrize("version", range(6))
def test_leave_group(raw: RawClient, topic: str, version: int) -> None:
    group = f"leave-{version}"
    joined = _stable(raw, group)

    def leave(member_id: str) -> Any:
        one = {"member_id": member_id, "group_instance_id": None}
        return raw.call(
            request(ApiKey.LEAVE_GROUP, version, group_id=group, member_id=member_id, members=[one])
        )

    unknown = leave("nobody")
    if version >= 3:
        assert unknown.error_code is ErrorCode.none
        assert unknown.members[0].error_code is ErrorCode.unknown_member_id
    else:
        assert unknown.error_code is ErrorCode.unknown_member_id
    left = leave(joined.member_id)
    assert left.error_code is ErrorCode.none
    if version >= 3:
        assert left.members[0].member_id == joined.member_id


@pytest.mark.parametrize("version", range(2, 11))
def test_offset_commit_and_fetch(raw: RawClient, topic: str, version: int) -> None:
    group = f"commit-{version}"
    answer = _commit(raw, version, group, 40 + version)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none
    fetched = _fetch(raw, max(7, version), group)
    (partition,) = fetched.topics[0].partitions
    assert (partition.partition_index, partition.committed_offset) == (1, 40 + version)
    assert partition.metadata == f"note {40 + version}"
    assert partition.committed_leader_epoch == (0 if version >= 6 else -1)


@pytest.mark.parametrize("version", range(2, 11))
def test_offset_commit_names_what_does_not_exist(raw: RawClient, topic: str, version: int) -> None:
    def partition(index: int) -> dict[str, Any]:
        return {
            "partition_index": index,
            "committed_offset": 5,
            "committed_leader_epoch": -1,
            "committed_metadata": None,
        }

    topics = [
        _named(raw, version, 10, "no-such-topic") | {"partitions": [partition(0)]},
        _named(raw, version, 10, _TOPIC) | {"partitions": [partition(0), partition(3), partition(-1)]},
    ]
    answer = _commit(raw, version, f"missing-{version}", 0, topics=topics)
    missing = ErrorCode.unknown_topic_or_partition
    found = [[one.error_code for one in each.partitions] for each in answer.topics]
    nobodys = ErrorCode.unknown_topic_id if version >= 10 else missing
    assert found == [[nobodys], [ErrorCode.none, missing, missing]]
    only = _commit(raw, version, "", 0, topics=topics[:1])
    assert only.topics[0].partitions[0].error_code is nobodys


@pytest.mark.parametrize("version", range(1, 11))
def test_offset_fetch(raw: RawClient, topic: str, version: int) -> None:
    group = f"fetch-{version}"
    _commit(raw, 8, group, 9)
    known, none = _named(raw, version, 10, _TOPIC), _named(raw, version, 10, "none")
    asked = [known | {"partition_indexes": (0, 1)}, none | {"partition_indexes": (4,)}]
    answer = _fetch(raw, version, group, asked)
    found = {
        (_name(each), one.partition_index): (one.committed_offset, one.metadata, one.error_code)
        for each in answer.topics
        for one in each.partitions
    }
    nothing = (-1, "", ErrorCode.none)
    (own,) = known.values()
    assert found == {
        (own, 0): nothing,
        (own, 1): (9, "note 9", ErrorCode.none),
        (*none.values(), 4): (-1, "", ErrorCode.unknown_topic_id) if version >= 10 else nothing,
    }
    if version >= 2:
        everything = _fetch(raw, version, group)
        assert [(_name(each), len(each.partitions)) for each in everything.topics] == [(own, 1)]
        assert _fetch(raw, version, "never-seen").topics == ()


def test_offset_delete(raw: RawClient, topic: str) -> None:
    _commit(raw, 8, "delete-offsets", 9)
    wanted = [{"name": _TOPIC, "partitions": [{"partition_index": 1}, {"partition_index": 2}]}]
    unknown = {"name": "no.such.topic", "partitions": [{"partition_index": 0}]}
    answer = raw.call(request(ApiKey.OFFSET_DELETE, 0, group_id="delete-offsets", topics=[unknown, *wanted]))
    assert answer.error_code is ErrorCode.none
    assert answer.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_or_partition
    assert [one.error_code for one in answer.topics[1].partitions] == [ErrorCode.none] * 2
    assert _fetch(raw, 7, "delete-offsets").topics == ()
    answer = raw.call(request(ApiKey.OFFSET_DELETE, 0, group_id="never-seen", topics=wanted))
    assert answer.error_code is ErrorCode.group_id_not_found
    assert answer.topics == ()


@pytest.mark.parametrize("version", range(4))
def test_find_coordinator(broker: BrokerProcess, raw: RawClient, version: int) -> None:
    answer = raw.call(request(ApiKey.FIND_COORDINATOR, version, key="g", key_type=0))
    assert answer.error_code is ErrorCode.none
    assert (answer.node_id, answer.host, answer.port) == (1, "127.0.0.1", broker.port)
    if version >= 1:
        answer = raw.call(request(ApiKey.FIND_COORDINATOR, version, key="t", key_type=1))
        assert (answer.error_code, answer.port) == (ErrorCode.none, broker.port)
        answer = raw.call(request(ApiKey.FIND_COORDINATOR, version, key="", key_type=1))
        assert answer.error_code is ErrorCode.invalid_request
        answer = raw.call(request(ApiKey.FIND_COORDINATOR, version, key="t", key_type=9))
        assert answer.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("version", [4, 5, 6])
def test_find_several_coordinators(broker: BrokerProcess, raw: RawClient, version: int) -> None:
    def asked(key_type: int, *keys: str) -> dict[str, tuple[ErrorCode, int]]:
        wanted = request(ApiKey.FIND_COORDINATOR, version, coordinator_keys=keys, key_type=key_type)
        return {each.key: (each.error_code, each.port) for each in raw.call(wanted).coordinators}

    here = (ErrorCode.none, broker.port)
    assert asked(0, "g", "h") == {"g": here, "h": here}
    assert asked(1, "t", "") == {"t": here, "": (ErrorCode.invalid_request, -1)}
    assert asked(9, "t") == {"t": (ErrorCode.invalid_request, -1)}
    assert asked(0) == {}


@pytest.mark.parametrize("version", range(7))
def test_describe_groups(raw: RawClient, topic: str, version: int) -> None:
    group = f"describe-{version}"
    joined = _stable(raw, group)
    answer = raw.call(
        request(
            ApiKey.DESCRIBE_GROUPS,
            version,
            groups=[group, "never-seen"],
            include_authorized_operations=version == 5,
        )
    )
    described, missing = answer.groups
    assert (described.group_id, described.group_state) == (group, "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    (member,) = described.members
    assert (member.member_id, member.client_id, member.client_host) == (joined.member_id, "raw", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (subscription(_TOPIC), b"ours")
    said = ErrorCode.group_id_not_found if version >= 6 else ErrorCode.none
    assert (missing.group_state, missing.error_code) == ("Dead", said)
    if version >= 3:
        assert described.authorized_operations == (328 if version == 5 else -(2**31))


@pytest.mark.parametrize("version", range(6))
def test_list_groups(raw: RawClient, topic: str, version: int) -> None:
    _stable(raw, f"list-{version}")
    _commit(raw, 8, f"list-simple-{version}", 1)
    answer = raw.call(request(ApiKey.LIST_GROUPS, version, states_filter=()))
    found = {each.group_id: each for each in answer.groups}
    assert found[f"list-{version}"].protocol_type == "consumer"
    assert found[f"list-simple-{version}"].protocol_type == ""
    if version >= 4:
        assert found[f"list-{version}"].group_state == "Stable"
        answer = raw.call(request(ApiKey.LIST_GROUPS, version, states_filter=["Empty"]))
        assert {each.group_state for each in answer.groups} == {"Empty"}
    if version >= 5:
        assert {each.group_type for each in answer.groups} == {"classic"}
        for types, expected in ((["Classic"], True), (["consumer"], False)):
            answer = raw.call(request(ApiKey.LIST_GROUPS, version, states_filter=(), types_filter=types))
            assert bool(answer.groups) is expected


@pytest.mark.parametrize("version", range(3))
def test_delete_groups(raw: RawClient, topic: str, version: int) -> None:
    busy, idle = f"busy-{version}", f"idle-{version}"
    _stable(raw, busy)
    _commit(raw, 8, idle, 1)
    answer = raw.call(request(ApiKey.DELETE_GROUPS, version, groups_names=[busy, idle, "never-seen", idle]))
    assert {each.group_id: each.error_code for each in answer.results} == {
        busy: ErrorCode.non_empty_group,
        idle: ErrorCode.none,
        "never-seen": ErrorCode.group_id_not_found,
    }
    assert raw.call(request(ApiKey.DELETE_GROUPS, version, groups_names=())).results == ()


def test_a_parked_join_is_answered_on_its_own_connection(broker: BrokerProcess, topic: str) -> None:
    with RawClient(broker.port) as one, RawClient(broker.port) as two:
        leader = _stable(one, "parked")
        told = _join(two, 5, "parked")
        two.send(
            request(
                ApiKey.JOIN_GROUP,
                5,
                group_id="parked",
                session_timeout=_ms(10_000),
                rebalance_timeout=_ms(10_000),
                member_id=told.member_id,
                group_instance_id=None,
                protocol_type="consumer",
                protocols=({"name": "range", "metadata": b""},),
            )
        )
        again = _join(one, 5, "parked", leader.member_id)
        follower = two.receive()
        assert again.generation_id == follower.generation_id == 2
        assert len(again.members) == 2
        assert follower.members == ()


def test_a_member_whose_connection_vanished_is_out_after_its_session(
    broker: BrokerProcess, topic: str
) -> None:
    with RawClient(broker.port) as client:
        joined = _join(client, 3, "vanished", session_timeout=_ms(6_000))
        _sync(client, 3, "vanished", joined)
        vanished_at = time.monotonic()
    with RawClient(broker.port) as client:

        def state() -> str:
            answer = client.call(request(ApiKey.DESCRIBE_GROUPS, 0, groups=["vanished"]))
            return str(answer.groups[0].group_state)

        assert state() == "Stable"
        while state() == "Stable":
            time.sleep(0.05)
            assert time.monotonic() - vanished_at < 10
        assert time.monotonic() - vanished_at >= 5.9
        assert state() == "Empty"


def test_a_deleted_topic_takes_its_offsets_along(raw: RawClient) -> None:
    create_topic(raw, "short-lived", 2)
    partition = {
        "partition_index": 0,
        "committed_offset": 5,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    topics = [{"name": "short-lived", "partitions": [partition]}]
    _commit(raw, 8, "of-a-deleted-topic", 0, topics=topics)
    assert _fetch(raw, 7, "of-a-deleted-topic").topics != ()
    raw.call(request(ApiKey.DELETE_TOPICS, 4, topic_names=["short-lived"], timeout=_ms(5_000)))
    assert _fetch(raw, 7, "of-a-deleted-topic").topics == ()


def test_small_requests_do_not_get_much_of_what_others_brought(broker: BrokerProcess, topic: str) -> None:
    """A group that is named thousands of times is told once, and of many large ones only the first."""
    metadata, groups = bytes(900_000), [f"large-{number}" for number in range(7)]
    with RawClient(broker.port) as client, RawClient(broker.port) as other:
        for group in groups:
            protocols = [{"name": "own", "metadata": metadata}]
            joined = _join(client, 3, group, protocol_type="own", protocols=protocols)
            synced = _sync(client, 3, group, joined, protocol_type=None, protocol_name=None)
            assert synced.error_code is ErrorCode.none
        often = request(ApiKey.DESCRIBE_GROUPS, 4, groups=tuple(groups[:1] * 5_000))
        assert [len(group.members) for group in client.call(often).groups] == [1]
        told = client.call(request(ApiKey.DESCRIBE_GROUPS, 4, groups=tuple(groups))).groups
        again = [group.group_id for group in told if group.error_code is not ErrorCode.none]
        assert {group.error_code for group in told} == {
            ErrorCode.none,
            ErrorCode.coordinator_load_in_progress,
        }
        assert again == groups[5:], "and those are told when they are asked for"
        (last,) = client.call(request(ApiKey.DESCRIBE_GROUPS, 4, groups=tuple(groups[-1:]))).groups
        assert last.members[0].member_metadata == metadata
        assert _member(other, "a neighbour's").leader
