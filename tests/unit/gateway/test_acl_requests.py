"""Requests to an instance that enforces ACLs: what goes up, what is answered, what is shown of replies."""

import contextlib
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from kio.schema.errors import ErrorCode

from contracts.access_orders import AccessAnswer
from contracts.acls import (
    ANONYMOUS,
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from contracts.names import physical_name
from contracts.users import KafkaUser
from gateway.apis import SERVED, Mode
from gateway.causes import DisconnectCause
from gateway.stops import ConnectionStop
from tests.integration.gateway.filling import filled
from tests.unit.gateway.session_host import INSTANCE, Frames, SessionHost, served_instance
from wire.api_table import ApiKey
from wire.build import build, known_to, response
from wire.codec import (
    decode,
    decode_response,
    framed_request,
    framed_response,
    is_flexible,
    parse_request_header,
    parse_request_prefix,
    request_class,
)
from wire.edits import FETCH_BY_ID_FROM

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TRANSACTIONAL_ID = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
ROOT = KafkaUser(name="root", credentials=(), superuser=True)
WALK = [pytest.param(key, version, id=f"{ApiKey(key).name}-{version}") for key, version in SERVED]
NO_TOPIC = ErrorCode.topic_authorization_failed
NO_GROUP = ErrorCode.group_authorization_failed
NO_TRANSACTION = ErrorCode.transactional_id_authorization_failed
NO_CLUSTER = ErrorCode.cluster_authorization_failed


def allow(kind: ResourceType, name: str, *operations: Operation, principal: str = ANONYMOUS) -> list[Acl]:
    literal = PatternType.LITERAL
    return [Acl(kind, literal, name, principal, "*", each, Permission.ALLOW) for each in operations]


class Shown:
    """Who shows a certificate."""

    def __init__(self, user: str) -> None:
        self.user = user


class Client:
    """One connection to an instance with these ACLs; `user` shows a certificate."""

    def __init__(
        self, *acls: Acl, enforced: bool = True, users: tuple[KafkaUser, ...] = (ROOT,), user: str = ""
    ) -> None:
        served = served_instance()
        served.apply(
            msgspec.structs.replace(served.spec, acls=acls, acls_enforced=enforced, users=users, revision=2)
        )
        self.host = SessionHost(served, certificate=Shown(user) if user else None)
        self._frames = Frames()
        self._seen = self._went = 0

    def sends(self, key: int, version: int, /, **known: Any) -> None:
        self.host.client_sends(framed_request(build(request_class(key, version), known), 1, "c"))

    def went_up(self) -> list[bytes]:
        sent, self._went = bytes(self.host.up[self._went :]), len(self.host.up)
        return Frames().take(sent)

    def answer(self, key: int, version: int) -> Any:
        came, self._seen = bytes(self.host.down[self._seen :]), len(self.host.down)
        (frame,) = self._frames.take(came)
        return decode_response(frame, key, version)[1]

    def call(self, key: int, version: int, /, **known: Any) -> Any:
        """The answer to what must not go up."""
        self.sends(key, version, **known)
        assert not self.went_up()
        return self.answer(key, version)

    def replied(self, key: int, version: int, reply: dict[str, Any], /, **known: Any) -> Any:
        """The answer to what goes up, and is answered with `reply` there."""
        self.sends(key, version, **known)
        assert len(self.went_up()) == 1
        self.host.broker_sends(framed_response(response(key, version, **reply), 1))
        return self.answer(key, version)


_ITS_ID = UUID(int=7).bytes
"""What `filled` calls a topic that has no name."""


def physical(name: str) -> str:
    return physical_name(INSTANCE, name)


# The table


@pytest.mark.parametrize(("key", "version"), WALK)
def test_without_a_rule_no_name_goes_up(key: int, version: int) -> None:
    """An API that comes into the table is asked of ACLs here."""
    client = Client()
    request = filled(request_class(key, version), [lambda _: "orders"])
    client.host.client_sends(framed_request(request, 1, "c"))
    assert physical("orders").encode() not in bytes(client.host.up)
    if SERVED[key, version].mode is Mode.FETCH:
        assert _ITS_ID not in bytes(client.host.up)


@pytest.mark.parametrize(("key", "version"), WALK)
def test_a_superuser_is_served_as_without_acls(key: int, version: int) -> None:
    request = filled(request_class(key, version), [lambda _: "orders"])
    came = []
    for client in (Client(user="root"), Client(enforced=False, users=())):
        client.host.around.topics = {"orders": 1}
        with contextlib.suppress(NotImplementedError):  # it asks the cluster, in its own words
            client.host.client_sends(framed_request(request, 1, "c"))
        came.append(bytes(client.host.up))
    if SERVED[key, version].mode is Mode.FETCH:
        told = physical("orders").encode() if version < FETCH_BY_ID_FROM else _ITS_ID
        assert all(told in each for each in came)  # without a session, with ACLs
    elif SERVED[key, version].mode is Mode.PRODUCE:
        assert _understood(came[0]) == _understood(came[1])  # decoded with ACLs, so lengths are short
    else:
        assert came[0] == came[1]


def _understood(frame: bytes) -> Any:
    key, version, _ = parse_request_prefix(frame[4:])
    header = parse_request_header(frame[4:], is_flexible(key, version))
    return header.client_id, decode(request_class(key, version), frame[4:], header.body_at)


# Topics


def _partitions(answer: Any, field: str = "topics") -> dict[str, set[ErrorCode]]:
    def error(one: Any) -> ErrorCode:
        return one.partition_error_code if hasattr(one, "partition_error_code") else one.error_code

    def name(one: Any) -> str:
        return str(one.name if hasattr(one, "name") else one.topic)

    def parts(one: Any) -> Any:
        for each in ("partitions", "partition_responses", "results_by_partition"):
            if hasattr(one, each):
                return getattr(one, each)
        raise AssertionError(one)

    return {name(one): {error(part) for part in parts(one)} for one in getattr(answer, field)}


def _produce(*topics: str, transactional_id: str | None = None, acks: int = -1) -> dict[str, Any]:
    data = [{"name": one, "partition_data": [{"index": 0, "records": b"x"}]} for one in topics]
    return {"acks": acks, "topic_data": data, "transactional_id": transactional_id}


@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_produce_is_refused_by_topic_and_the_others_go_on(version: int) -> None:
    client = Client(*allow(TOPIC, "mine", Operation.WRITE), *allow(TOPIC, "read", Operation.READ))
    reply = {
        "responses": [{"name": physical("mine"), "partition_responses": [{"index": 0, "base_offset": 7}]}]
    }
    answer = client.replied(ApiKey.PRODUCE, version, reply, **_produce("mine", "read", "other"))
    assert _partitions(answer, "responses") == {
        "mine": {ErrorCode.none},
        "read": {NO_TOPIC},
        "other": {NO_TOPIC},
    }
    client.sends(ApiKey.PRODUCE, version, **_produce("mine"))
    assert len(client.went_up()) == 1


@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_a_transactional_produce_needs_its_id(version: int) -> None:
    client = Client(*allow(TOPIC, "mine", Operation.WRITE), *allow(TRANSACTIONAL_ID, "tx", Operation.WRITE))
    answer = client.call(ApiKey.PRODUCE, version, **_produce("mine", transactional_id="other"))
    assert _partitions(answer, "responses") == {"mine": {NO_TRANSACTION}}
    client.sends(ApiKey.PRODUCE, version, **_produce("mine", transactional_id="tx"))
    assert len(client.went_up()) == 1


def test_produce_without_an_answer_ends_where_it_is_refused() -> None:
    client = Client()
    with pytest.raises(ConnectionStop) as stop:
        client.sends(ApiKey.PRODUCE, 7, **_produce("mine", acks=0))
    assert stop.value.cause is DisconnectCause.ACKS_ZERO_REFUSED


@pytest.mark.parametrize(
    ("key", "version", "operation"),
    [
        (ApiKey.LIST_OFFSETS, 6, Operation.DESCRIBE),
        (ApiKey.LIST_OFFSETS, 6, Operation.READ),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, Operation.DESCRIBE),
        (ApiKey.DELETE_RECORDS, 2, Operation.DELETE),
    ],
)
def test_topics_are_left_out_and_answered_for(key: int, version: int, operation: Operation) -> None:
    client = Client(*allow(TOPIC, "mine", operation), *allow(TOPIC, "less", Operation.CREATE))
    reply = {"topics": [_with_partition(key, physical("mine"))]}
    of_consumer = known_to(request_class(key, version), {"replica_id": -1})
    asked = [_with_partition(key, one) for one in ("mine", "less", "no")]
    answer = client.replied(key, version, reply, topics=asked, **of_consumer)
    assert _partitions(answer) == {"mine": {ErrorCode.none}, "less": {NO_TOPIC}, "no": {NO_TOPIC}}


def _with_partition(key: int, name: str) -> dict[str, Any]:
    if key == ApiKey.OFFSET_FOR_LEADER_EPOCH:
        return {"topic": name, "partitions": [{"partition": 0}]}
    return {"name": name, "partitions": [{"partition_index": 0}]}


def test_metadata_shows_what_may_be_described_and_what_may_be_done() -> None:
    client = Client(*allow(TOPIC, "mine", Operation.READ), *allow(TOPIC, "odd", Operation.ALTER_CONFIGS))
    listed = {
        "topics": [
            {"name": physical(one), "topic_authorized_operations": 0xFFF} for one in ("mine", "odd", "no")
        ],
        "cluster_authorized_operations": 0xFFF,
    }
    answer = client.replied(ApiKey.METADATA, 8, listed, topics=None, include_topic_authorized_operations=True)
    (shown,) = answer.topics
    assert shown.name == "mine" and shown.topic_authorized_operations == 1 << 3 | 1 << 8
    assert answer.cluster_authorized_operations == 0
    named = {"topics": [{"name": physical("mine")}]}
    answer = client.replied(ApiKey.METADATA, 4, named, topics=[{"name": "mine"}, {"name": "no"}])
    assert {one.name: one.error_code for one in answer.topics} == {"mine": ErrorCode.none, "no": NO_TOPIC}


def test_operations_that_were_not_asked_for_are_not_told() -> None:
    client = Client(*allow(TOPIC, "mine", Operation.READ))
    unknown = -(2**31)
    listed = {
        "topics": [{"name": physical("mine"), "topic_authorized_operations": unknown}],
        "cluster_authorized_operations": unknown,
    }
    answer = client.replied(ApiKey.METADATA, 8, listed, topics=None)
    assert answer.topics[0].topic_authorized_operations == unknown == answer.cluster_authorized_operations


def test_answers_that_were_kept_before_are_given_to_nobody_else() -> None:
    client = Client(*allow(TOPIC, "mine", Operation.READ), enforced=False)
    listed = {"topics": [{"name": physical("mine")}, {"name": physical("no")}]}
    assert len(client.replied(ApiKey.METADATA, 4, listed, topics=None).topics) == 2
    served = client.host.served
    served.apply(msgspec.structs.replace(served.spec, acls_enforced=True, revision=3))
    assert [one.name for one in client.replied(ApiKey.METADATA, 4, listed, topics=None).topics] == ["mine"]


def test_topics_are_made_by_who_may_make_this_one_or_any() -> None:
    topic = {"name": "new", "num_partitions": 1, "replication_factor": -1}
    asked = {"topics": [topic], "timeout": timedelta(seconds=1)}
    for acls, error in (
        ([], NO_TOPIC),
        (allow(TOPIC, "other", Operation.CREATE), NO_TOPIC),
        (allow(TOPIC, "new", Operation.CREATE), ErrorCode.none),
        (allow(CLUSTER, CLUSTER_NAME, Operation.CREATE), ErrorCode.none),
    ):
        answer = Client(*acls).call(ApiKey.CREATE_TOPICS, 5, **asked)
        (made,) = answer.topics
        assert made.error_code is error
        if error is ErrorCode.none:
            assert made.topic_config_error_code == NO_TOPIC.value and made.configs is None


# Groups, transactions


@pytest.mark.parametrize(
    ("key", "version", "operation"),
    [
        (ApiKey.JOIN_GROUP, 9, Operation.READ),
        (ApiKey.SYNC_GROUP, 5, Operation.READ),
        (ApiKey.HEARTBEAT, 4, Operation.READ),
        (ApiKey.LEAVE_GROUP, 5, Operation.READ),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, Operation.READ),
        (ApiKey.OFFSET_DELETE, 0, Operation.DELETE),
        (ApiKey.OFFSET_FETCH, 7, Operation.DESCRIBE),
        (ApiKey.ADD_OFFSETS_TO_TXN, 4, Operation.READ),
    ],
)
def test_groups_are_refused_and_let_through(key: int, version: int, operation: Operation) -> None:
    wrong = Operation.DESCRIBE if operation is not Operation.DESCRIBE else Operation.CREATE
    known = {"group_id": "g"}
    more = []
    if key == ApiKey.ADD_OFFSETS_TO_TXN:
        known["transactional_id"] = "tx"
        more = allow(TRANSACTIONAL_ID, "tx", Operation.WRITE)
    assert Client(*more, *allow(GROUP, "g", wrong)).call(key, version, **known).error_code is NO_GROUP
    client = Client(*more, *allow(GROUP, "g", operation))
    client.sends(key, version, **known)
    assert len(client.went_up()) == 1


def test_members_of_consumer_groups_subscribe_to_what_they_may_see() -> None:
    client = Client(*allow(GROUP, "g", Operation.READ), *allow(TOPIC, "mine", Operation.DESCRIBE))
    beat = {"group_id": "g", "subscribed_topic_names": ["mine", "no"]}
    assert client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **beat).error_code is NO_TOPIC
    client.sends(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **beat | {"subscribed_topic_names": ["mine"]})
    assert len(client.went_up()) == 1


def test_consumer_groups_are_shown_without_members_of_topics_that_may_not_be_seen() -> None:
    client = Client(*allow(GROUP, "g", Operation.DESCRIBE), *allow(TOPIC, "mine", Operation.DESCRIBE))

    def described(assigned: str, subscribed: str) -> Any:
        nothing = {"topic_partitions": []}
        member = {
            "assignment": nothing,
            "target_assignment": {"topic_partitions": [{"topic_name": physical(assigned)}]},
            "subscribed_topic_names": [physical(subscribed)],
        }
        group = {"group_id": physical("g"), "members": [member], "authorized_operations": 0xFFF}
        asked = {"group_ids": ["g", "no"], "include_authorized_operations": True}
        answer = client.replied(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"groups": [group]}, **asked)
        told = {one.group_id: one for one in answer.groups}
        assert told["no"].error_code is NO_GROUP
        return told["g"]

    shown = described("mine", "mine")
    assert (shown.error_code, len(shown.members)) == (ErrorCode.none, 1)
    assert shown.authorized_operations == 1 << 8
    for assigned, subscribed in (("no", "mine"), ("mine", "no")):
        hidden = described(assigned, subscribed)
        assert (hidden.error_code, len(hidden.members)) == (NO_TOPIC, 0)


def test_commits_need_the_group_and_each_topic() -> None:
    asked = {"group_id": "g", "topics": _topics_of_commit("mine", "no")}
    answer = Client(*allow(TOPIC, "mine", Operation.READ)).call(ApiKey.OFFSET_COMMIT, 8, **asked)
    assert _partitions(answer) == {"mine": {NO_GROUP}, "no": {NO_GROUP}}
    client = Client(*allow(TOPIC, "mine", Operation.READ), *allow(GROUP, "g", Operation.READ))
    reply = {"topics": [{"name": physical("mine"), "partitions": [{"partition_index": 0}]}]}
    answer = client.replied(ApiKey.OFFSET_COMMIT, 8, reply, **asked)
    assert _partitions(answer) == {"mine": {ErrorCode.none}, "no": {NO_TOPIC}}


def _topics_of_commit(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [{"partition_index": 0}]} for name in names]


def test_groups_that_may_not_be_described_are_not_shown() -> None:
    client = Client(*allow(GROUP, "mine", Operation.READ))
    groups = [{"group_id": physical(one), "authorized_operations": 0xFFF} for one in ("mine", "no")]
    listed = client.replied(ApiKey.LIST_GROUPS, 4, {"groups": [{"group_id": g["group_id"]} for g in groups]})
    assert [one.group_id for one in listed.groups] == ["mine"]
    answer = client.replied(
        ApiKey.DESCRIBE_GROUPS,
        5,
        {"groups": groups[:1]},
        groups=["mine", "no"],
        include_authorized_operations=True,
    )
    told = {one.group_id: (one.error_code, one.authorized_operations) for one in answer.groups}
    assert told["mine"] == (ErrorCode.none, 1 << 3 | 1 << 8) and told["no"][0] is NO_GROUP
    assert client.call(ApiKey.DELETE_GROUPS, 2, groups_names=["mine"]).results[0].error_code is NO_GROUP
    all_of_them = Client(*allow(CLUSTER, CLUSTER_NAME, Operation.DESCRIBE))
    answer = all_of_them.replied(
        ApiKey.LIST_GROUPS, 4, {"groups": [{"group_id": one["group_id"]} for one in groups]}
    )
    assert len(answer.groups) == 2


def test_transactions_need_their_id_group_and_topics() -> None:
    client = Client(
        *allow(TRANSACTIONAL_ID, "tx", Operation.WRITE),
        *allow(TOPIC, "mine", Operation.WRITE, Operation.READ),
    )
    assert client.call(ApiKey.END_TXN, 3, transactional_id="no").error_code is NO_TRANSACTION
    topics = [{"name": one, "partitions": [0]} for one in ("mine", "no")]
    asked = {"v3_and_below_transactional_id": "tx", "v3_and_below_topics": topics}
    answer = client.call(ApiKey.ADD_PARTITIONS_TO_TXN, 3, **asked)
    told = {
        one.name: one.results_by_partition[0].partition_error_code
        for one in answer.results_by_topic_v3_and_below
    }
    assert told == {"mine": ErrorCode.operation_not_attempted, "no": NO_TOPIC}
    asked["v3_and_below_transactional_id"] = "no"
    answer = client.call(ApiKey.ADD_PARTITIONS_TO_TXN, 3, **asked)
    assert {
        one.results_by_partition[0].partition_error_code for one in answer.results_by_topic_v3_and_below
    } == {NO_TRANSACTION}
    commit = {"transactional_id": "tx", "group_id": "g", "topics": _topics_of_commit("mine")}
    answer = client.call(ApiKey.TXN_OFFSET_COMMIT, 3, **commit)
    assert _partitions(answer) == {"mine": {NO_GROUP}}
    answer = client.replied(
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        {
            "transaction_states": [
                {
                    "transactional_id": physical("tx"),
                    "topics": [{"topic": physical("mine")}, {"topic": physical("no")}],
                }
            ]
        },
        transactional_ids=["tx", "no"],
    )
    assert [(one.transactional_id, one.error_code) for one in answer.transaction_states] == [
        ("tx", ErrorCode.none),
        ("no", NO_TRANSACTION),
    ]
    assert [one.topic for one in answer.transaction_states[0].topics] == ["mine"]
    listed = {"transaction_states": [{"transactional_id": physical(one)} for one in ("tx", "no")]}
    answer = client.replied(ApiKey.LIST_TRANSACTIONS, 0, listed)
    assert [one.transactional_id for one in answer.transaction_states] == ["tx"]


def test_an_idempotent_producer_writes_somewhere_or_may_everywhere() -> None:
    asked = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
    assert Client().call(ApiKey.INIT_PRODUCER_ID, 4, **asked).error_code is NO_CLUSTER
    for acls in (
        allow(TOPIC, "mine", Operation.WRITE),
        allow(CLUSTER, CLUSTER_NAME, Operation.IDEMPOTENT_WRITE),
    ):
        client = Client(*acls)
        client.sends(ApiKey.INIT_PRODUCER_ID, 4, **asked)
        assert len(client.went_up()) == 1
    answer = Client(*allow(TOPIC, "mine", Operation.WRITE)).call(
        ApiKey.INIT_PRODUCER_ID, 4, **{**asked, "transactional_id": "tx"}
    )
    assert answer.error_code is NO_TRANSACTION


def test_coordinators_are_found_by_who_may_describe() -> None:
    client = Client(*allow(GROUP, "g", Operation.READ))
    answer = client.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["no"])
    assert answer.coordinators[0].error_code is NO_GROUP
    answer = client.call(ApiKey.FIND_COORDINATOR, 3, key_type=1, key="tx")
    assert answer.error_code is NO_TRANSACTION
    client.sends(ApiKey.FIND_COORDINATOR, 3, key_type=0, key="g")
    assert len(client.went_up()) == 1


def test_configs_and_sizes_are_for_who_may_describe_them() -> None:
    client = Client(*allow(TOPIC, "mine", Operation.ALTER_CONFIGS))
    asked = [{"resource_type": kind, "resource_name": name} for kind, name in ((2, "no"), (4, ""), (32, "g"))]
    answer = client.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=asked)
    assert [one.error_code for one in answer.results] == [NO_TOPIC, NO_CLUSTER, NO_GROUP]
    client.sends(ApiKey.DESCRIBE_CONFIGS, 4, resources=[{"resource_type": 2, "resource_name": "mine"}])
    assert len(client.went_up()) == 1
    assert Client().call(ApiKey.DESCRIBE_LOG_DIRS, 2, topics=None).results == ()


def test_resources_of_configs_are_listed_for_who_may_describe_them() -> None:
    client = Client(*allow(TOPIC, "mine", Operation.DESCRIBE_CONFIGS))
    assert client.call(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[2]).error_code is NO_CLUSTER
    of_cluster = allow(CLUSTER, CLUSTER_NAME, Operation.DESCRIBE_CONFIGS)
    client = Client(*of_cluster, *allow(TOPIC, "mine", Operation.DESCRIBE_CONFIGS))
    client.host.around.topics = {"mine": 1, "other": 1}
    listed = client.call(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[2]).config_resources
    assert [each.resource_name for each in listed] == ["mine"]


_CURSORS = {"topics": [{"name": name} for name in ("a", "b", "c", "mine")], "response_partition_limit": 9}


def test_partitions_of_topics_are_described_for_who_may_see_them() -> None:
    client = Client(*allow(TOPIC, "mine", Operation.DESCRIBE))
    cursor = {"topic_name": "b", "partition_index": 0}
    told = {"name": physical("mine"), "topic_authorized_operations": 0xFF}
    answer = client.replied(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [told]}, **_CURSORS, cursor=cursor
    )
    assert {topic.name: topic.error_code for topic in answer.topics} == {
        "mine": ErrorCode.none,
        "b": NO_TOPIC,
        "c": NO_TOPIC,
    }
    assert answer.topics[0].topic_authorized_operations == 1 << Operation.DESCRIBE


def test_all_topics_are_those_that_may_be_seen() -> None:
    client = Client(*allow(TOPIC, "mine", Operation.DESCRIBE))
    client.host.around.topics = {"mine": 1, "other": 1}
    client.sends(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, response_partition_limit=9)
    (sent,) = client.went_up()
    assert physical("mine").encode() in sent and b"other" not in sent
    client = Client()
    client.host.around.topics = {"other": 1}
    answer = client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, response_partition_limit=9)
    assert answer.topics == () and answer.next_cursor is None


def test_more_topics_than_one_answer_holds_are_asked_for_one_after_another() -> None:
    client = Client(enforced=False, users=())
    names = [f"t{number:04}" for number in range(2_001)]
    client.host.around.topics = dict.fromkeys(names, 1)
    asked, reply = {"response_partition_limit": 9_999}, {"topics": [{"name": physical(names[0])}]}
    answer = client.replied(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, reply, **asked)
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == (names[-1], 0)
    rest = client.replied(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        reply,
        **asked,
        cursor={"topic_name": names[-1], "partition_index": 0},
    )
    assert rest.next_cursor is None


# ACLs by Kafka's own requests


def _creation(name: str = "orders", **changes: Any) -> dict[str, Any]:
    made = {
        "resource_type": 2,
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": "User:app",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return made | changes


ANYTHING = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def test_only_superusers_and_who_may_alter_the_cluster_change_acls() -> None:
    alter = allow(CLUSTER, CLUSTER_NAME, Operation.ALTER)
    for client, may in (
        (Client(), False),
        (Client(user="app"), False),
        (Client(*allow(CLUSTER, CLUSTER_NAME, Operation.DESCRIBE)), False),
        (Client(*alter), True),
        (Client(*alter, enforced=False), False),
        (Client(user="root"), True),
        (Client(user="root", enforced=False), True),
    ):
        answer = client.call(ApiKey.CREATE_ACLS, 3, creations=[_creation()])
        assert answer.results[0].error_code is (ErrorCode.none if may else NO_CLUSTER)
        answer = client.call(ApiKey.DELETE_ACLS, 3, filters=[])
        assert bool(client.host.around.access_orders) is may
    seeing = Client(*alter).call(ApiKey.DESCRIBE_ACLS, 3, **ANYTHING)
    assert seeing.error_code is ErrorCode.none and len(seeing.resources) == 1
    blind = Client(*alter, user="app").call(ApiKey.DESCRIBE_ACLS, 3, **ANYTHING)
    assert blind.error_code is NO_CLUSTER and blind.resources == ()


def test_what_is_no_acl_is_refused_by_itself() -> None:
    client = Client(user="root")
    wrong = [
        _creation(operation=1),
        _creation(operation=99),
        _creation(resource_type=6),
        _creation(resource_pattern_type=2),
        _creation(permission_type=1),
        _creation(principal="app"),
        _creation(host="example.org"),
        _creation(name=""),
    ]
    answer = client.call(ApiKey.CREATE_ACLS, 2, creations=[_creation(), *wrong, _creation("others")])
    none, invalid = ErrorCode.none, ErrorCode.invalid_request
    assert [one.error_code for one in answer.results] == [none, *[invalid] * len(wrong), none]
    (order,) = client.host.around.access_orders
    assert [one.name for one in order.acls] == ["orders", "others"] and order.principal == "User:root"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (AccessAnswer(refusal="too many"), ErrorCode.policy_violation),
        (AccessAnswer(refusal="nobody there", is_passing=True), ErrorCode.request_timed_out),
    ],
)
def test_what_the_control_plane_refuses_is_refused(said: AccessAnswer, error: ErrorCode) -> None:
    client = Client(user="root")
    client.host.around.access_answer = said
    made = client.call(ApiKey.CREATE_ACLS, 1, creations=[_creation(), _creation(host="x")])
    assert [one.error_code for one in made.results] == [error, ErrorCode.invalid_request]
    gone = client.call(ApiKey.DELETE_ACLS, 1, filters=[ANYTHING])
    assert gone.filter_results[0].error_code is error and gone.filter_results[0].error_message == said.refusal


def test_acls_are_described_by_resource_and_deleted_by_filter() -> None:
    mine = [
        *allow(TOPIC, "a", Operation.READ, Operation.WRITE, principal="User:app"),
        *allow(GROUP, "a", Operation.READ, principal="User:app"),
    ]
    client = Client(*mine, user="root")
    answer = client.call(ApiKey.DESCRIBE_ACLS, 3, **ANYTHING)
    assert [(one.resource_type, len(one.acls)) for one in answer.resources] == [(2, 2), (3, 1)]
    answer = client.call(ApiKey.DESCRIBE_ACLS, 3, **{**ANYTHING, "operation": 4})
    assert [one.acls[0].operation for one in answer.resources] == [4]
    assert client.call(ApiKey.DESCRIBE_ACLS, 3, **{**ANYTHING, "operation": 0}).error_code is (
        ErrorCode.invalid_request
    )
    client.host.around.access_answer = AccessAnswer(revision=1, deleted=(tuple(mine[:1]), ()))
    unknown = {**ANYTHING, "permission_type": 0}
    asked = [{**ANYTHING, "operation": 3}, unknown, {**ANYTHING, "host_filter": "192.0.2.1"}]
    results = client.call(ApiKey.DELETE_ACLS, 3, filters=asked).filter_results
    assert [one.error_code for one in results] == [
        ErrorCode.none,
        ErrorCode.invalid_request,
        ErrorCode.none,
    ]
    assert [len(one.matching_acls) for one in results] == [1, 0, 0]
    (order,) = client.host.around.access_orders
    assert order.filters == (AclFilter(operation=3), AclFilter(host="192.0.2.1"))
