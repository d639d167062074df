"""A listing for a tenant costs what the tenant has: the broker leaves out what is other instances'."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.broker.raw import RawClient, create_topic, request
from wire.codec import duration, encode

SECRET = "the deployment's secret"
A, B = "iaaaaaaaaaaa", "ibbbbbbbbbbb"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("secured")
    secret = directory / "internal.key"
    secret.write_text(SECRET)
    with running_broker(directory, "--secret-file", str(secret)) as running:
        yield running


def _connect(broker: BrokerProcess, instance_id: str | None = None) -> RawClient:
    client = RawClient(broker.port)
    assert client.call(request(17, 1, mechanism="PLAIN")).error_code.value == 0
    identity = "" if instance_id is None else f"{instance_id}/127.0.0.1:5"
    token = f"{identity}\0portico\0{SECRET}".encode()
    assert client.call(request(36, 1, auth_bytes=token)).error_code.value == 0
    return client


def _join(client: RawClient, group: str) -> None:
    """A group that is there: it has a member, whose session is long."""
    values: dict[str, Any] = {
        "group_id": group,
        "session_timeout": duration(60_000),
        "rebalance_timeout": duration(60_000),
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    while True:
        answer = client.call(request(10, 1, key=group, key_type=0))
        if answer.error_code.value == 0 and client.call(request(11, 2, **values)).error_code.value == 0:
            return


def _listed(client: RawClient) -> dict[str, tuple[set[str], int]]:
    """What each listing names, and the bytes of its answer."""
    topics = client.call(request(3, 1, topics=None))
    log_dirs = client.call(request(35, 1, topics=None))
    groups = client.call(request(16, 2))
    return {
        "metadata": ({topic.name for topic in topics.topics}, len(encode(topics))),
        "log dirs": (
            {topic.name for one in log_dirs.results for topic in one.topics},
            len(encode(log_dirs)),
        ),
        "groups": ({group.group_id for group in groups.groups}, len(encode(groups))),
    }


def test_a_tenants_listing_does_not_grow_with_its_neighbours(secured: BrokerProcess) -> None:
    with _connect(secured) as operator, _connect(secured, A) as tenant:
        create_topic(operator, f"{A}.mine", 1)
        _join(operator, f"{A}.group")
        before = _listed(tenant)
        assert before["metadata"][0] == before["log dirs"][0] == {f"{A}.mine"}
        assert before["groups"][0] == {f"{A}.group"}
        for number in range(60):
            create_topic(operator, f"{B}.theirs-{number}", 1)
        _join(operator, f"{B}.group")
        assert _listed(tenant) == before, "not a byte more"
        seen = _listed(operator)
        assert len(seen["metadata"][0]) >= 61 and {f"{A}.group", f"{B}.group"} <= seen["groups"][0]
