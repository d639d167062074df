"""A POST that is sent again with its Idempotency-Key does nothing, and gets the answer of the first."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v8.response import MetadataResponsePartition, MetadataResponseTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32
from sqlalchemy import func, select

from contracts.specs import BrokerAddress
from tenants.api.idempotency import _SECRETS
from tenants.backend import messages, topics
from tenants.backend.cluster import Cluster, ConnectionPool
from tenants.console import Console
from tenants.rules.errors import Unavailable
from tenants.store import schema
from tenants.store.idempotency import ABANDONED_MS, KEPT_MS
from tenants.usecases import idempotency
from tests.openapi import document

from .conftest import OPERATOR_KEY, ORDER, Caller

KEY = {"Authorization": f"Bearer {OPERATOR_KEY}"}


async def post(client: httpx.AsyncClient, path: str, key: str, body: Any, **headers: str) -> httpx.Response:
    return await client.post(f"/v1/{path}", json=body, headers={**KEY, "Idempotency-Key": key, **headers})


async def test_the_answer_of_the_first_is_given_again(client: httpx.AsyncClient, operator: Caller) -> None:
    first = await post(client, "instances", "order-1", ORDER)
    again = await post(client, "instances", '"order-1"', ORDER)
    assert first.status_code == again.status_code == 201
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true" and "idempotency-replayed" not in first.headers
    for name in ("location", "etag", "content-type"):
        assert again.headers[name] == first.headers[name]
    assert again.headers["x-request-id"] != first.headers["x-request-id"]
    assert len((await operator("GET", "instances")).json()["items"]) == 1
    created = [one for one in (await operator("GET", "audit")).json()["items"] if "create" in one["action"]]
    assert len([one for one in created if one["subject"] == first.json()["id"]]) == 1


async def test_another_request_with_the_same_key_is_refused(client: httpx.AsyncClient) -> None:
    assert (await post(client, "instances", "k", ORDER)).status_code == 201
    for path, body in (
        ("instances", {**ORDER, "name": "other"}),
        ("instances?tenant=default", ORDER),
        ("tenants", {"name": "acme"}),
    ):
        other = await post(client, path, "k", body)
        assert other.status_code == 409
        assert other.json()["type"] == "urn:portico:problem:idempotency-key-reused"


async def test_a_key_belongs_to_its_caller(client: httpx.AsyncClient, operator: Caller) -> None:
    other = await operator.tenant("other")
    assert (await post(client, "instances", "same", ORDER)).status_code == 201
    theirs = await client.post(
        "/v1/instances", json=ORDER, headers={**other._headers, "Idempotency-Key": "same"}
    )
    assert theirs.status_code == 201 and theirs.json()["tenant"] == "other"
    assert "idempotency-replayed" not in theirs.headers


async def test_what_was_refused_may_be_corrected(client: httpx.AsyncClient) -> None:
    wrong = await post(client, "instances", "k", {**ORDER, "capacity_bytes": 1})
    assert wrong.status_code == 422
    assert (await post(client, "instances", "k", ORDER)).status_code == 201


async def test_a_message_whose_fate_is_not_known_is_not_sent_again(
    client: httpx.AsyncClient, plane: Console, operator: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker wrote it, perhaps, and did not answer in time."""
    made = (await post(client, "instances", "order-1", ORDER)).json()
    partition = MetadataResponsePartition(
        error_code=ErrorCode.none,
        partition_index=i32(0),
        leader_id=BrokerId(1),
        leader_epoch=i32(0),
        replica_nodes=(),
        isr_nodes=(),
        offline_replicas=(),
    )
    found = MetadataResponseTopic(
        error_code=ErrorCode.none, name=TopicName("orders"), is_internal=False, partitions=(partition,)
    )
    sent: list[str] = []

    async def existing(*_: object) -> MetadataResponseTopic:
        return found

    async def cluster_of(_: str) -> Cluster:
        return Cluster(ConnectionPool(None), (BrokerAddress(node_id=1, host="127.0.0.1", port=1),))

    async def produce(*_: object, **__: object) -> int:
        rows = (await operator("GET", "audit")).json()["items"]
        sent.append(next(one["detail"] for one in rows if one["action"] == "message.send"))
        raise Unavailable("no answer in time")

    monkeypatch.setattr(topics, "existing", existing)
    monkeypatch.setattr(messages, "produce", produce)
    monkeypatch.setattr(plane.messages, "_cluster_of", cluster_of)
    path = f"instances/{made['id']}/topics/orders/messages"
    first = await post(client, path, "k", {"value": "x"})
    again = await post(client, path, "k", {"value": "x"})
    assert (first.status_code, again.status_code) == (503, 409)
    assert sent == ["orders: to partition 0"], "who asks is told before it is sent"


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "\u00e9"])
async def test_what_is_no_key_is_refused(client: httpx.AsyncClient, key: str) -> None:
    headers = {**KEY, "Idempotency-Key": key.encode()}
    answer = await client.post("/v1/instances", json=ORDER, headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 400
    assert (await client.get("/v1/instances", headers=KEY)).json()["items"] == []


async def test_a_body_that_is_too_large_is_refused_as_ever(client: httpx.AsyncClient) -> None:
    answer = await post(client, "instances", "k", {**ORDER, "name": "x" * 1_100_000})
    assert answer.status_code == 413


async def test_of_many_at_once_one_is_carried_out(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(post(client, "tenants", "k", {"name": "acme"}) for _ in range(8)))
    done = [one for one in answers if one.status_code == 201]
    assert len([one for one in done if "idempotency-replayed" not in one.headers]) == 1
    running = [one for one in answers if one.status_code == 409]
    assert all(one.headers["retry-after"] == "1" for one in running)
    assert len(done) + len(running) == 8


async def test_two_control_processes_agree(
    client: httpx.AsyncClient, make_console: Callable[..., Console]
) -> None:
    from tenants.app import create_console_app

    first = await post(client, "instances", "k", ORDER)
    second = make_console()
    transport = httpx.ASGITransport(app=create_console_app(second))
    async with httpx.AsyncClient(transport=transport, base_url="http://other") as elsewhere:
        again = await post(elsewhere, "instances", "k", ORDER)
    second.close()
    assert again.json() == first.json() and again.headers["idempotency-replayed"] == "true"


async def test_a_secret_is_not_kept_and_not_made_twice(
    client: httpx.AsyncClient, plane: Console, operator: Caller
) -> None:
    made = await post(client, "keys", "k", {"name": "deploy"})
    assert made.status_code == 201
    again = await post(client, "keys", "k", {"name": "deploy"})
    assert again.status_code == 409 and made.json()["id"] in again.json()["detail"]
    named = [one for one in (await operator("GET", "keys")).json()["items"] if one["name"] == "deploy"]
    assert len(named) == 1
    with plane.store.read() as connection:
        kept = connection.execute(select(schema.idempotency_keys)).mappings().all()
    assert made.json()["secret"] not in str(kept)


def test_every_answer_with_a_secret_is_known_as_such() -> None:
    told = document()
    with_secrets = {
        path
        for path, methods in told["paths"].items()
        if "post" in methods
        and any(
            f'"{name}"' in str(methods["post"]["responses"]).replace("'", '"')
            for name in ("secret", "secret_key", "password")
        )
    } - {"/v1/session"}
    assert len(with_secrets) == 7
    assert all(_SECRETS.fullmatch(path) for path in with_secrets)


async def test_passwords_of_an_instances_users_are_not_kept(
    client: httpx.AsyncClient, plane: Console
) -> None:
    made = (await post(client, "instances", "i", ORDER)).json()
    user = await post(client, f"instances/{made['id']}/users", "u", {"name": "app"})
    assert user.status_code == 201
    changed = await post(client, f"instances/{made['id']}/users/app/password", "p", {})
    with plane.store.read() as connection:
        kept = str(connection.execute(select(schema.idempotency_keys)).mappings().all())
    for answer in (user, changed):
        assert answer.json()["password"] and answer.json()["password"] not in kept


class Clock:
    """The time as the use cases see it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_ms = 0
        real = idempotency.epoch_ms
        monkeypatch.setattr(idempotency, "epoch_ms", lambda: real() + self.ahead_ms)


async def test_a_process_that_died_after_it_was_done_and_before_its_answer(
    client: httpx.AsyncClient, plane: Console, monkeypatch: pytest.MonkeyPatch, operator: Caller
) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(plane.idempotency, "end", lambda *_: None)
    first = await post(client, "instances", "k", ORDER)
    monkeypatch.undo()
    clock = Clock(monkeypatch)
    assert (await post(client, "instances", "k", ORDER)).status_code == 409
    clock.ahead_ms = ABANDONED_MS
    again = await post(client, "instances", "k", ORDER)
    assert again.status_code == 201 and again.headers["idempotency-replayed"] == "true"
    assert again.json()["id"] == first.json()["id"]
    assert len((await operator("GET", "instances")).json()["items"]) == 1


async def test_a_process_that_died_before_it_was_done(
    client: httpx.AsyncClient, plane: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(plane.instances, "create", dies)
    monkeypatch.setattr(plane.idempotency, "end", lambda *_: None)
    with pytest.raises(RuntimeError):
        await post(client, "instances", "k", ORDER)
    monkeypatch.undo()
    clock = Clock(monkeypatch)
    clock.ahead_ms = ABANDONED_MS
    again = await post(client, "instances", "k", ORDER)
    assert again.status_code == 201 and "idempotency-replayed" not in again.headers


async def test_who_was_only_slow_does_not_do_it_twice(
    client: httpx.AsyncClient, plane: Console, monkeypatch: pytest.MonkeyPatch, operator: Caller
) -> None:
    clock = Clock(monkeypatch)
    create, go_on, waits = plane.accounts.create_tenant, asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(*arguments: Any) -> Any:
        loop.call_soon_threadsafe(waits.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(30)
        return create(*arguments)

    monkeypatch.setattr(plane.accounts, "create_tenant", slow)
    first = asyncio.create_task(post(client, "tenants", "k", {"name": "acme"}))
    await waits.wait()
    monkeypatch.setattr(plane.accounts, "create_tenant", create)
    clock.ahead_ms = ABANDONED_MS
    second = await post(client, "tenants", "k", {"name": "acme"})
    assert second.status_code == 201
    go_on.set()
    assert (await first).status_code == 409
    audit = (await operator("GET", "audit")).json()["items"]
    assert len([one for one in audit if one["action"] == "tenant.create" and one["subject"] == "acme"]) == 1


async def test_keys_end_and_are_bounded(
    client: httpx.AsyncClient, plane: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tenants.store import idempotency as rows

    clock = Clock(monkeypatch)
    monkeypatch.setattr(rows, "KEYS_MAX_PER_TENANT", 3)
    for number in range(6):
        assert (await post(client, "tenants", f"k{number}", {"name": f"t{number}"})).status_code == 201
    with plane.store.read() as connection:
        assert connection.scalar(select(func.count()).select_from(schema.idempotency_keys)) == 3
    assert (await post(client, "tenants", "k5", {"name": "t5"})).headers["idempotency-replayed"] == "true"
    assert (await post(client, "tenants", "k0", {"name": "t0"})).status_code == 409
    clock.ahead_ms = KEPT_MS
    assert "idempotency-replayed" not in (await post(client, "tenants", "k5", {"name": "t5"})).headers
