"""Topics whose configs hold the limits of their instance follow when these change."""

import msgspec
import pytest

from contracts.specs import Engine, Limits
from contracts.topic_policy import MAX_MESSAGE_BYTES, RETENTION_MS
from tenants.console import Console
from tenants.rules.written_limits import Written, followed
from tenants.store import instances, schema, written_limits
from tenants.store.written_limits import Behind
from tests.unit.tenants.conftest import Caller

HOUR_MS = 3_600_000
NOW = Limits(retention_ms_max=HOUR_MS, message_bytes_max=1_000)


@pytest.mark.parametrize(
    ("retention_ms", "message_bytes", "before", "changes"),
    [
        ("3600000", "1000", None, {}),
        ("60000", "10", None, {}),
        ("3600001", "1001", None, {RETENTION_MS: "3600000", MAX_MESSAGE_BYTES: "1000"}),
        ("-1", "0", None, {RETENTION_MS: "3600000"}),
        (None, None, None, {RETENTION_MS: "3600000", MAX_MESSAGE_BYTES: "1000"}),
        ("60000", "10", Written(60_000, 10), {RETENTION_MS: "3600000", MAX_MESSAGE_BYTES: "1000"}),
        ("59999", "9", Written(60_000, 10), {}),
        ("60000", "10", Written(60_001, 11), {}),
        ("7200000", "2000", Written(7_200_000, 2_000), {RETENTION_MS: "3600000", MAX_MESSAGE_BYTES: "1000"}),
    ],
)
def test_what_is_larger_falls_and_what_was_the_limit_follows_it(
    retention_ms: str | None, message_bytes: str | None, before: Written | None, changes: dict[str, str]
) -> None:
    configs = {RETENTION_MS: retention_ms, MAX_MESSAGE_BYTES: message_bytes, "cleanup.policy": "delete"}
    assert followed(configs, NOW, before) == changes


async def test_an_instance_is_behind_until_its_revision_is_kept(operator: Caller, plane: Console) -> None:
    store = plane.store
    made = str((await operator.order())["id"])

    def behind(*without: str) -> list[Behind]:
        with store.read() as connection:
            found = written_limits.behind(connection, without, 10)
        return [one for one in found if one.instance.id == made]

    assert behind() == [], "brokers of our own apply limits themselves"
    with store.write() as connection:
        cluster = schema.clusters
        connection.execute(cluster.update().values(engine=Engine.APACHE.value))
    [one] = behind()
    assert one.written is None
    assert behind(made) == behind(one.instance.cluster_id) == []
    with store.write() as connection:
        written_limits.keep(connection, one.instance)
    assert behind() == []
    limits = msgspec.structs.replace(one.instance.limits, retention_ms_max=HOUR_MS)
    with store.write() as connection:
        instances.save(connection, one.instance.with_(limits=limits), 1)
    [again] = behind()
    assert again.written == Written.of(one.instance.limits)
    with store.write() as connection:
        written_limits.keep(connection, again.instance)
        written_limits.forget_instance(connection, made)
    assert [each.written for each in behind()] == [None]
