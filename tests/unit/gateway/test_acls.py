"""What ACLs allow, beside a plain reading of Kafka's rules, and what is kept of it."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.acls import (
    ANONYMOUS,
    ANY,
    CLUSTER_NAME,
    EVERYBODY,
    EVERYTHING,
    MATCH,
    Acl,
    AclFault,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    checked,
)
from contracts.users import KafkaUser
from gateway.rules.acls import RIGHTS_KEPT, Authority

APP = "User:app"
HERE = "192.0.2.7"
TOPIC = ResourceType.TOPIC


def acl(
    name: str = "orders",
    operation: Operation = Operation.READ,
    *,
    principal: str = APP,
    host: str = EVERYTHING,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    kind: ResourceType = TOPIC,
) -> Acl:
    return Acl(kind, pattern, name, principal, host, operation, permission)


def plainly(acls: Iterable[Acl], principal: str, host: str, operation: Operation, name: str) -> bool:
    """Kafka's rules, one after the other."""

    def about(one: Acl) -> bool:
        names = (
            one.name in (name, EVERYTHING)
            if one.pattern_type is PatternType.LITERAL
            else name.startswith(one.name)
        )
        return (
            names
            and one.resource_type is TOPIC
            and one.principal in (principal, EVERYBODY)
            and one.host in (host, EVERYTHING)
        )

    implying = {
        Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
        Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
    }.get(operation, ())
    found = [one for one in acls if about(one)]
    if any(
        one.permission is Permission.DENY and one.operation in (operation, Operation.ALL) for one in found
    ):
        return False
    allowing = (operation, Operation.ALL, *implying)
    return any(one.permission is Permission.ALLOW and one.operation in allowing for one in found)


NAMES = st.sampled_from(["a", "ab", "abc", "abd", "b", EVERYTHING])
ACLS = st.builds(
    Acl,
    st.sampled_from([TOPIC, ResourceType.GROUP]),
    st.sampled_from(PatternType),
    NAMES,
    st.sampled_from([APP, "User:other", EVERYBODY]),
    st.sampled_from([EVERYTHING, HERE, "192.0.2.8"]),
    st.sampled_from(Operation),
    st.sampled_from(Permission),
)


@given(
    st.lists(ACLS, max_size=12),
    st.sampled_from([APP, "User:other", "User:third", ANONYMOUS]),
    st.sampled_from([HERE, "192.0.2.8", "192.0.2.9"]),
    st.sampled_from([one for one in Operation if one is not Operation.ALL]),
    st.sampled_from(["a", "ab", "abc", "abcd", "b", "c"]),
)
def test_decisions_are_those_of_a_plain_reading(
    acls: list[Acl], principal: str, host: str, operation: Operation, name: str
) -> None:
    rights = Authority(acls, ()).rights(principal, host)
    assert rights.allows(operation, TOPIC, name) == plainly(acls, principal, host, operation, name)


def test_without_a_rule_nothing_is_allowed_but_to_superusers() -> None:
    authority = Authority((), (KafkaUser(name="root", credentials=(), superuser=True),))
    for kind in ResourceType:
        for operation in Operation:
            if operation is not Operation.ALL:
                assert not authority.rights(APP, HERE).allows(operation, kind, "x")
                assert authority.rights("User:root", HERE).allows(operation, kind, "x")
    assert not authority.rights(ANONYMOUS, HERE).allows_some(Operation.WRITE, TOPIC)
    assert authority.rights("User:root", HERE).allows_some(Operation.WRITE, TOPIC)


def test_a_superuser_is_refused_nothing_by_a_rule() -> None:
    deny = acl(EVERYTHING, Operation.ALL, principal=EVERYBODY, permission=Permission.DENY)
    authority = Authority([deny], (KafkaUser(name="root", credentials=(), superuser=True),))
    assert authority.rights("User:root", HERE).allows(Operation.READ, TOPIC, "orders")


def test_who_may_write_somewhere_is_known() -> None:
    rights = Authority([acl("o", Operation.WRITE, pattern=PatternType.PREFIXED)], ()).rights(APP, HERE)
    assert rights.allows_some(Operation.WRITE, TOPIC) and not rights.allows_some(Operation.READ, TOPIC)
    denied = acl(EVERYTHING, Operation.WRITE, permission=Permission.DENY)
    rights = Authority([acl("o", Operation.WRITE), denied], ()).rights(APP, HERE)
    assert not rights.allows_some(Operation.WRITE, TOPIC)


def test_operations_are_told_as_kafka_tells_them() -> None:
    rights = Authority([acl(operation=Operation.ALL)], ()).rights(APP, HERE)
    assert rights.told(TOPIC, "orders") == sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
    assert rights.told(TOPIC, "others") == 0 and rights.told_of_cluster() == 0
    cluster = acl(CLUSTER_NAME, Operation.ALTER, kind=ResourceType.CLUSTER)
    assert Authority([cluster], ()).rights(APP, HERE).told_of_cluster() == 1 << 7 | 1 << 8


def test_compiled_rules_are_kept_for_few_and_shared_by_those_whom_none_names() -> None:
    many = [acl(principal=f"User:u{number}") for number in range(3 * RIGHTS_KEPT)]
    authority = Authority(many, ())
    assert authority.rights("User:stranger", HERE) is authority.rights(ANONYMOUS, "192.0.2.9")
    first = authority.rights("User:u0", HERE)
    assert authority.rights("User:u0", "192.0.2.9") is first
    for one in many:
        assert authority.rights(one.principal, HERE).allows(Operation.READ, TOPIC, "orders")
    assert authority.rights("User:u0", HERE) is not first


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (acl(""), "name"),
        (acl("x" * 250), "name"),
        (acl("a\nb"), "name"),
        (acl("orders", kind=ResourceType.CLUSTER), "name"),
        (acl(EVERYTHING, pattern=PatternType.PREFIXED), "name"),
        (acl(principal="app"), "principal"),
        (acl(principal="User:"), "principal"),
        (acl(principal="Group:app"), "principal"),
        (acl(principal="User:" + "x" * 129), "principal"),
        (acl(host="10.0.0.0/8"), "host"),
        (acl(host="gateway"), "host"),
        (acl(host="fe80::1%eth0"), "host"),
    ],
)
def test_what_is_no_acl_is_refused_by_its_field(wrong: Acl, field: str) -> None:
    with pytest.raises(AclFault) as fault:
        checked(wrong)
    assert fault.value.field == field


def test_addresses_are_kept_in_one_spelling() -> None:
    assert checked(acl(host="::ffff:192.0.2.7")).host == HERE
    assert checked(acl(host="2001:DB8:0::1")).host == "2001:db8::1"


@pytest.mark.parametrize(
    ("meant", "is_meant"),
    [
        (AclFilter(), True),
        (AclFilter(name="order"), False),
        (AclFilter(pattern_type=PatternType.LITERAL, name="orders-eu"), False),
        (AclFilter(pattern_type=PatternType.PREFIXED, name="orders"), True),
        (AclFilter(pattern_type=PatternType.PREFIXED, name="orders-eu"), False),
        (AclFilter(pattern_type=MATCH, name="orders-eu"), True),
        (AclFilter(pattern_type=MATCH, name="order"), False),
        (AclFilter(resource_type=ResourceType.GROUP), False),
        (AclFilter(principal=EVERYBODY), False),
        (AclFilter(principal=APP, host=EVERYTHING, operation=Operation.READ), True),
        (AclFilter(operation=ANY, permission=Permission.DENY), False),
    ],
)
def test_filters_mean_what_kafkas_mean(meant: AclFilter, is_meant: bool) -> None:
    assert meant.means(acl("orders", pattern=PatternType.PREFIXED)) is is_meant


def test_match_means_rules_about_all_names() -> None:
    assert AclFilter(pattern_type=MATCH, name="orders").means(acl(EVERYTHING))
    assert not AclFilter(pattern_type=ANY, name="orders").means(acl(EVERYTHING))
