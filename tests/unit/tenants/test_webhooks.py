"""Webhooks with real sinks over HTTP: signed, tried again, bounded, and nobody else's business."""

import asyncio
import base64
import hashlib
import hmac
import json
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from ipaddress import ip_network
from typing import Any

import pytest
from sqlalchemy import event

from runtime.clock import epoch_ms
from tenants.console import Console
from tenants.rules.alarms import Alarm, AlarmEvent, AlarmKind
from tenants.rules.webhook_queue import PENDING_MAX, SHARE_MAX
from tenants.rules.webhooks import BACKOFF_MS, LOG_MAX, Kind
from tenants.store import alarms as rows
from tenants.store.instances import Place
from tenants.store.shared_session import SoleOffice
from tenants.store.webhooks import Resting, Webhook
from tenants.store.webhooks import due as due_of
from tenants.tenant_http import LOOKUPS_MAX_PER_TENANT, TenantHttp
from tenants.usecases import webhooks
from tenants.webhook_runner import ATTEMPTS_MAX_PER_TENANT, WebhookRunner
from tenants.webhook_sink import WebhookSink
from tests.unit.tenants.conftest import Caller

Answering = Callable[[asyncio.StreamWriter], Awaitable[None]]
REALLY_RUN = WebhookRunner.run
LOOPBACK = [ip_network("127.0.0.0/8")]


def says(text: str) -> Answering:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(text.encode())
        await writer.drain()

    return answer


OK = says("HTTP/1.1 204 No Content\r\n\r\n")


class Sink:
    """An HTTP server of a tenant: what came, and an answer as a test wants it."""

    def __init__(self) -> None:
        self.came: list[tuple[dict[str, str], bytes]] = []
        self.answer = OK
        self.url = ""
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/hook?token=t"

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            exact = {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in head[1:] if line}
            body = await reader.readexactly(int(headers["content-length"]))
            self.came.append(({"request": head[0], **exact}, body))
            await self.answer(writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the console hung up
        finally:
            writer.close()


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    made = Sink()
    await made.start()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks of the console do nothing while a test sends."""

    async def idle(_self: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("tenants.webhook_runner.WebhookRunner.run", idle)
    monkeypatch.setattr("tenants.alarm_runner.AlarmRunner.run", idle)


@pytest.fixture
def runner(plane: Console) -> WebhookRunner:
    return WebhookRunner(plane.webhooks, WebhookSink(TenantHttp(LOOPBACK)), SoleOffice())


async def send(runner: WebhookRunner, now_ms: int | None = None) -> None:
    await runner.begin(epoch_ms() if now_ms is None else now_ms)
    await runner.settled()


async def made(caller: Caller, url: str, name: str = "pager") -> dict[str, Any]:
    answer = await caller("POST", "webhooks", json={"name": name, "url": url})
    assert answer.status_code == 201, answer.text
    return answer.json()  # type: ignore[no-any-return]


async def log(caller: Caller, webhook: dict[str, Any]) -> list[dict[str, Any]]:
    return (await caller("GET", f"webhooks/{webhook['id']}/deliveries")).json()["items"]  # type: ignore[no-any-return]


def verified(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """As libraries of Standard Webhooks do it."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    said = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body.decode()}".encode()
    expected = base64.b64encode(hmac.new(key, said, hashlib.sha256).digest()).decode()
    return headers["webhook-signature"] == f"v1,{expected}"


async def test_a_test_message_arrives_signed(operator: Caller, runner: WebhookRunner, sink: Sink) -> None:
    hook = await made(operator, sink.url)
    sent = await operator("POST", f"webhooks/{hook['id']}/test")
    assert (sent.status_code, sent.json()["state"]) == (202, "pending")
    await send(runner)
    [(headers, body)] = sink.came
    assert headers["request"] == "POST /hook?token=t HTTP/1.1"
    assert headers["webhook-id"] == sent.json()["id"]
    assert verified(hook["signing_secret"], headers, body)
    assert json.loads(body)["type"] == "webhook.test"
    [told] = await log(operator, hook)
    assert (told["state"], told["http_status"], told["attempts"], told["reason"]) == ("delivered", 204, 1, "")
    listed = (await operator("GET", "webhooks")).text
    assert "whsec_" not in listed and hook["signing_secret"] not in listed
    await send(runner)
    assert len(sink.came) == 1, "what was delivered is not sent again"


async def test_what_fails_is_tried_again_and_then_given_up(
    operator: Caller, runner: WebhookRunner, sink: Sink
) -> None:
    hook = await made(operator, sink.url)
    await operator("POST", f"webhooks/{hook['id']}/test")
    sink.answer = says("HTTP/1.1 500 Sorry\r\n\r\n")
    now_ms = epoch_ms()
    await send(runner, now_ms)
    await send(runner, now_ms)
    assert len(sink.came) == 1, "not before its time"
    for number in range(len(BACKOFF_MS) + 2):
        await send(runner, now_ms + (number + 1) * 10 * BACKOFF_MS[-1])
    assert len(sink.came) == len(BACKOFF_MS) + 1
    assert len({headers["webhook-id"] for headers, _ in sink.came}) == 1
    [told] = await log(operator, hook)
    assert (told["state"], told["reason"], told["next_at"]) == ("failed", "answered 500", None)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            says("HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n"),
            "redirects are not followed",
        ),
        (says("HTTP/1.1 200 OK\r\n" + "X-A: " + "a" * 100_000), "ProtocolError|larger"),
        (says("SSH-2.0-OpenSSH_9.0\r\n\r\n"), "ProtocolError"),
        (says(""), "without an answer"),
    ],
)
async def test_hostile_answers_are_failures(
    operator: Caller, runner: WebhookRunner, sink: Sink, answer: Answering, why: str
) -> None:
    hook = await made(operator, sink.url)
    await operator("POST", f"webhooks/{hook['id']}/test")
    sink.answer = answer
    await send(runner)
    [told] = await log(operator, hook)
    assert told["state"] == "pending"
    assert any(part in told["reason"] for part in why.split("|")), told["reason"]


async def test_an_endless_answer_is_not_read_and_a_silent_sink_is_given_up(
    operator: Caller, runner: WebhookRunner, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"1000\r\n" + b"a" * 4096 + b"\r\n")
            await writer.drain()

    async def silent(_writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    hook = await made(operator, sink.url)
    await operator("POST", f"webhooks/{hook['id']}/test")
    sink.answer = endless
    await send(runner)
    assert [one["state"] for one in await log(operator, hook)] == ["delivered"]
    monkeypatch.setattr("tenants.tenant_http.ATTEMPT_MS_MAX", 300)
    sink.answer = silent
    await operator("POST", f"webhooks/{hook['id']}/test")
    await send(runner)
    assert (await log(operator, hook))[0]["reason"].startswith("no answer within")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "localhost",
        "[::1]",
        "[::ffff:7f00:1]",
        "0",
    ],
)
async def test_nothing_is_sent_to_where_tenants_may_not_reach(
    operator: Caller, plane: Console, sink: Sink, host: str
) -> None:
    """Whatever the name looks like: what it resolves to is looked at, and connected to."""
    port = sink.url.rpartition(":")[2].partition("/")[0]
    runner = WebhookRunner(plane.webhooks, WebhookSink(TenantHttp([])), SoleOffice())
    hook = await made(operator, f"http://{host}:{port}/")
    await operator("POST", f"webhooks/{hook['id']}/test")
    await send(runner)
    [told] = await log(operator, hook)
    assert told["reason"] == f"{host.strip('[]')} is or has no address that may be called"
    assert sink.came == []


async def test_a_name_is_resolved_once_and_all_it_says_must_be_allowed(
    operator: Caller, plane: Console, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    port = int(sink.url.rpartition(":")[2].partition("/")[0])
    answers = [["127.0.0.1"], ["10.0.0.1"]]  # the second time it leads elsewhere: nobody asks

    really = socket.getaddrinfo

    def resolve(host: str, port: int, *more: Any, **named: Any) -> list[Any]:
        if host != "rebound.example":  # others of this process are asking, too
            return really(host, port, *more, **named)
        asked.append(host)
        found = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in found]

    monkeypatch.setattr("tenants.tenant_http.socket.getaddrinfo", resolve)
    runner = WebhookRunner(plane.webhooks, WebhookSink(TenantHttp(LOOPBACK)), SoleOffice())
    hook = await made(operator, f"http://rebound.example:{port}/")
    await operator("POST", f"webhooks/{hook['id']}/test")
    await send(runner)
    assert [one["state"] for one in await log(operator, hook)] == ["delivered"]
    assert asked.count("rebound.example") == 1 and sink.came[0][0]["host"] == f"rebound.example:{port}"
    answers[:] = [["127.0.0.1", "10.0.0.1"]]
    await operator("POST", f"webhooks/{hook['id']}/test")
    await send(runner)
    reason = (await log(operator, hook))[0]["reason"]
    assert reason == "rebound.example is or has no address that may be called", "not which it has"


async def test_nothing_tells_where_a_name_leads(
    operator: Caller, runner: WebhookRunner, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither whether it exists behind us, nor the address in a range that operators allow."""
    known = {"there.internal": "10.1.2.3", "allowed.internal": "127.0.0.77"}
    really = socket.getaddrinfo

    def resolve(host: str, port: int, *more: Any, **named: Any) -> list[Any]:
        if not str(host).endswith(".internal"):
            return really(host, port, *more, **named)
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (known[host], port))]

    monkeypatch.setattr("tenants.tenant_http.socket.getaddrinfo", resolve)
    port = sink.url.rpartition(":")[2].partition("/")[0]
    sink.close()
    told = {}
    for name in ("there", "absent", "allowed"):
        hook = await made(operator, f"http://{name}.internal:{port}/", name)
        await operator("POST", f"webhooks/{hook['id']}/test")
        await send(runner)
        told[name] = (await log(operator, hook))[0]["reason"]
    assert told["there"].replace("there", "absent") == told["absent"]
    assert told["allowed"] == "Connection refused"
    assert not any(one in text for one in known.values() for text in told.values())


async def test_nothing_tells_which_ports_of_our_own_machine_are_open() -> None:
    """Its addresses are refused before anything is connected to."""
    came: list[object] = []

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(writer)
        writer.close()

    server = await asyncio.start_server(serve, "::1", 0)
    port = server.sockets[0].getsockname()[1]
    sink = WebhookSink(
        TenantHttp([ip_network("::1/128")])
    )  # which stands for a public address of this machine
    urls = [f"{scheme}://[::1]:{port}/" for scheme in ("http", "https")]
    is_open = [await sink.post("acme", url, [], b"{}") for url in urls]
    server.close()
    await server.wait_closed()
    is_closed = [await sink.post("acme", url, [], b"{}") for url in urls]
    assert came == []
    assert {one.error for one in (*is_open, *is_closed)} == {"::1 is or has no address that may be called"}


async def test_a_resolver_that_hangs_holds_up_no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that are no daemons are joined at the interpreter's exit."""
    release, threads = threading.Event(), list[threading.Thread]()
    really = socket.getaddrinfo

    def resolve(host: str, *more: Any, **named: Any) -> list[Any]:
        if host == "hangs.example":
            threads.append(threading.current_thread())
            release.wait()
        return really(host, *more, **named)

    monkeypatch.setattr("tenants.tenant_http.socket.getaddrinfo", resolve)
    monkeypatch.setattr("tenants.tenant_http.LOOKUP_MS_MAX", 300)
    try:
        outcome = await WebhookSink(TenantHttp([])).post("acme", "http://hangs.example/", [], b"{}")
        assert "not found within" in outcome.error
        assert [one.daemon for one in threads] == [True]
    finally:
        release.set()


async def test_an_alarm_of_a_deleted_instance_is_cleared_for_who_was_told(
    operator: Caller, plane: Console, runner: WebhookRunner, sink: Sink
) -> None:
    owner = await operator.tenant("acme")
    instance = str((await owner.order())["id"])
    hook = await made(owner, sink.url)
    alarm = Alarm(instance, AlarmKind.FULL, raised_at_ms=1, says="full", is_told=True)
    with plane.store.write() as connection:
        rows.save(connection, [alarm], [])
    assert (await owner("DELETE", f"instances/{instance}")).is_success
    plane.alarms.settle(SoleOffice(), [], frozenset(), [alarm], epoch_ms())
    await send(runner)
    [(_, body)] = sink.came
    said = json.loads(body)
    assert (said["type"], said["data"]["instance_name"]) == ("alarm.cleared", "shop")
    assert [one["state"] for one in await log(owner, hook)] == ["delivered"]


async def test_names_that_hang_for_some_tenants_hold_up_no_other(
    operator: Caller, runner: WebhookRunner, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads of a resolver cannot be ended: each tenant has a few, however often it is tried again."""
    release, asked = threading.Event(), Counter[str]()
    really = socket.getaddrinfo

    def resolve(host: str, port: int, *more: Any, **named: Any) -> list[Any]:
        if str(host).endswith(".hangs.example"):
            asked[host.partition(".")[0]] += 1
            release.wait()
        return really(host, port, *more, **named)

    monkeypatch.setattr("tenants.tenant_http.socket.getaddrinfo", resolve)
    monkeypatch.setattr("tenants.tenant_http.LOOKUP_MS_MAX", 1_000)
    hooks = {}
    for number in range(8):
        hostile = await operator.tenant(f"t{number}")
        for which in range(ATTEMPTS_MAX_PER_TENANT):
            hook = await made(hostile, f"http://t{number}.hangs.example/", f"h{which}")
            hooks[hook["id"]] = (hostile, hook)
            await hostile("POST", f"webhooks/{hook['id']}/test")
    quick = await operator.tenant("quick")
    theirs = await made(quick, sink.url.replace("127.0.0.1", "localhost"))
    now_ms = epoch_ms()
    try:
        for turn in range(len(BACKOFF_MS)):
            await quick("POST", f"webhooks/{theirs['id']}/test")
            await send(runner, now_ms + (turn + 1) * 10 * BACKOFF_MS[-1])
        while any(one["state"] == "pending" for one in await log(quick, theirs)):  # the machine is slow
            now_ms += 100 * BACKOFF_MS[-1]
            await send(runner, now_ms)
        assert {headers["webhook-id"] for headers, _ in sink.came} == {
            one["id"] for one in await log(quick, theirs)
        }
        assert dict(asked) == {f"t{number}": LOOKUPS_MAX_PER_TENANT for number in range(8)}
        reasons = {(await log(*one))[0]["reason"] for one in hooks.values()}
        assert len(reasons) == 1 and "without an answer" in reasons.pop()
    finally:
        release.set()


async def test_what_is_due_is_read_by_turns_and_not_all(
    operator: Caller, plane: Console, runner: WebhookRunner, sink: Sink
) -> None:
    """A tenant with many messages is one of several; a page is what may be begun."""
    many, few = await operator.tenant("many"), await operator.tenant("few")
    of_many = [await made(many, sink.url, f"h{number}") for number in range(5)]
    for hook in of_many:
        for _ in range(20):
            await many("POST", f"webhooks/{hook['id']}/test")
    of_few = await made(few, sink.url)
    await few("POST", f"webhooks/{of_few['id']}/test")
    now_ms, nobody = epoch_ms() + 1, Resting(frozenset(), frozenset())
    with plane.store.read() as connection:

        def due(resting: Resting, limit: int) -> list[Webhook]:
            return [webhook for _, webhook in due_of(connection, now_ms, resting, 3, limit, Kind.HTTP)]

        assert [one.tenant for one in due(nobody, 100)] == ["many", "few", "many", "many"]
        assert len({one.id for one in due(nobody, 100)}) == 4, "of a webhook one at a time"
        assert [one.tenant for one in due(nobody, 2)] == ["many", "few"]
        assert [one.tenant for one in due(Resting(frozenset(), frozenset({"many"})), 100)] == ["few"]
        busy = frozenset(one["id"] for one in [*of_many[:4], of_few])
        assert [one.id for one in due(Resting(busy, frozenset()), 100)] == [of_many[4]["id"]]


async def test_slow_sinks_of_one_tenant_hold_up_no_other(
    operator: Caller, runner: WebhookRunner, sink: Sink
) -> None:
    slow, quick = await operator.tenant("slow"), await operator.tenant("quick")
    release, hanging = asyncio.Event(), Sink()

    async def hang(writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await OK(writer)

    await hanging.start()
    hanging.answer = hang
    for number in range(ATTEMPTS_MAX_PER_TENANT + 2):
        hook = await made(slow, hanging.url, f"h{number}")
        await slow("POST", f"webhooks/{hook['id']}/test")
    await runner.begin(epoch_ms())
    theirs = await made(quick, sink.url)
    await quick("POST", f"webhooks/{theirs['id']}/test")
    await runner.begin(epoch_ms())
    async with asyncio.timeout(30):
        while not sink.came or len(hanging.came) < ATTEMPTS_MAX_PER_TENANT:
            await asyncio.sleep(0.01)
    assert len(hanging.came) == ATTEMPTS_MAX_PER_TENANT
    release.set()
    await runner.settled()
    hanging.close()


async def test_webhooks_of_a_tenant_have_turns_whoever_has_the_longest_queue(
    operator: Caller, runner: WebhookRunner, sink: Sink
) -> None:
    owner = await operator.tenant("acme")
    hooks = [await made(owner, sink.url, f"h{number}") for number in range(ATTEMPTS_MAX_PER_TENANT * 2)]
    for number, hook in enumerate(hooks):
        for _ in range(5 if number < ATTEMPTS_MAX_PER_TENANT else 1):
            await owner("POST", f"webhooks/{hook['id']}/test")
    for _ in range(2):
        await send(runner)
    assert {json.loads(body)["data"]["webhook"] for _, body in sink.came} == {one["id"] for one in hooks}


async def test_a_webhooks_next_message_waits_for_the_one_before_and_no_look(
    operator: Caller, runner: WebhookRunner, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenants.webhook_runner._EVERY_S", 3600.0)
    hook = await made(operator, sink.url)
    for _ in range(3):
        await operator("POST", f"webhooks/{hook['id']}/test")
    running = asyncio.create_task(REALLY_RUN(runner))
    try:
        async with asyncio.timeout(60):
            while len(sink.came) < 3:
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_queue_is_bounded_and_what_is_lost_is_said(
    operator: Caller, runner: WebhookRunner, plane: Console, sink: Sink
) -> None:
    hook = await made(operator, sink.url)
    with plane.store.write() as connection:
        webhooks.tell(connection, raised("default", range(PENDING_MAX + 50)), 1_000)
        webhooks.tell(connection, raised("default", range(PENDING_MAX + 50, PENDING_MAX + 250)), 2_000)
    items = await log(operator, hook)
    assert [one["state"] for one in items].count("pending") == PENDING_MAX
    assert len(items) == PENDING_MAX + LOG_MAX
    assert "too many messages waited" in items[0]["reason"]


def raised(tenant: str, subjects: range) -> list[tuple[Alarm, AlarmEvent, Place | None]]:
    alarms = [Alarm("i" + tenant, AlarmKind.LAG_GROWING, str(one), raised_at_ms=1) for one in subjects]
    return [(one, AlarmEvent.RAISED, Place(tenant, "shop", "c")) for one in alarms]


async def test_a_tenant_that_floods_the_operators_webhook_hides_nobodys_alarm(
    operator: Caller, plane: Console, runner: WebhookRunner, sink: Sink
) -> None:
    hook = (await operator("POST", "webhooks?tenant=*", json={"name": "all", "url": sink.url})).json()
    critical = Alarm("iother", AlarmKind.FULL, raised_at_ms=1, says="full")
    with plane.store.write() as connection:
        webhooks.tell(connection, raised("loud", range(1_000)), 1_000)
        notice = (critical, AlarmEvent.RAISED, Place("other", "shop", "c"))
        webhooks.tell(connection, [notice], 2_000)
    pending = [one for one in await log(operator, hook) if one["state"] == "pending"]
    assert len(pending) == SHARE_MAX + 1
    for _ in pending:
        await send(runner)
    told = [json.loads(body)["data"]["tenant"] for _, body in sink.came]
    assert told.count("other") == 1 and told.count("loud") == SHARE_MAX


async def test_what_is_raised_and_cleared_before_it_is_sent_is_one_message(
    operator: Caller, plane: Console, runner: WebhookRunner, sink: Sink
) -> None:
    """Also one that is on its way meanwhile: it is not tried again, and the newest is."""
    hook = await made(operator, sink.url)
    place, alarm = Place("default", "shop", "c"), Alarm("i1", AlarmKind.FULL, raised_at_ms=1)

    def tell(event: AlarmEvent, now_ms: int) -> None:
        with plane.store.write() as connection:
            webhooks.tell(connection, [(alarm, event, place)], now_ms)

    for number in range(50):
        tell(AlarmEvent.RAISED, 2 * number)
        tell(AlarmEvent.CLEARED, 2 * number + 1)
    items = await log(operator, hook)
    assert [one["state"] for one in items].count("pending") == 1 and items[0]["state"] == "pending"
    assert "took its place" in items[1]["reason"]

    async def meanwhile(writer: asyncio.StreamWriter) -> None:
        await asyncio.to_thread(tell, AlarmEvent.RAISED, 1_000)
        await says("HTTP/1.1 500 Sorry\r\n\r\n")(writer)

    sink.answer = meanwhile
    await send(runner)
    items = await log(operator, hook)
    assert (items[0]["state"], items[1]["state"]) == ("pending", "failed")
    assert "took its place" in items[1]["reason"]


async def test_the_alarms_transaction_does_not_grow_by_messages(
    operator: Caller, plane: Console, sink: Sink
) -> None:
    """Statements while the one writer is held: as many as there are webhooks, not messages."""
    for number in range(3):
        await operator("POST", "webhooks?tenant=*", json={"name": f"all{number}", "url": sink.url})
    with plane.store.write() as connection:

        def counted(count: int) -> int:
            asked: list[str] = []

            def note(*args: Any) -> None:
                asked.append(args[2])

            event.listen(connection, "before_cursor_execute", note)
            webhooks.tell(connection, raised("default", range(count)), 1_000)
            event.remove(connection, "before_cursor_execute", note)
            return len(asked)

        assert counted(500) <= counted(SHARE_MAX) + 3


async def test_a_disabled_webhook_is_told_nothing_and_what_waits_waits_on(
    operator: Caller, plane: Console, runner: WebhookRunner, sink: Sink
) -> None:
    hook = await made(operator, sink.url)
    await operator("POST", f"webhooks/{hook['id']}/test")
    off = await operator("PATCH", f"webhooks/{hook['id']}", json={"enabled": False})
    assert (off.status_code, off.json()["enabled"]) == (200, False)
    with plane.store.write() as connection:
        alarm = Alarm("", AlarmKind.FULL, raised_at_ms=1, says="full")
        webhooks.tell(connection, [(alarm, AlarmEvent.RAISED, Place("default", "shop", "c"))], epoch_ms())
    await send(runner)
    assert sink.came == []
    assert (await operator("POST", f"webhooks/{hook['id']}/test")).status_code == 409
    assert [(one["event"], one["state"]) for one in await log(operator, hook)] == [
        ("webhook.test", "pending")
    ]
    stranger = await operator.tenant("other")
    assert (await stranger("PATCH", f"webhooks/{hook['id']}", json={"enabled": True})).status_code == 404, (
        "it is another's"
    )
    await operator("PATCH", f"webhooks/{hook['id']}", json={"enabled": True})
    await send(runner)
    assert [json.loads(body)["type"] for _, body in sink.came] == ["webhook.test"]
    audited = [one["action"] for one in (await operator("GET", "audit")).json()["items"]]
    about_it = [action for action in audited if action.startswith("webhook.")]
    assert about_it == ["webhook.enable", "webhook.disable", "webhook.test", "webhook.create"]


async def test_who_is_told_of_what(
    operator: Caller, plane: Console, runner: WebhookRunner, sink: Sink
) -> None:
    owner, other = await operator.tenant("acme"), await operator.tenant("other")
    await made(owner, sink.url.replace("token=t", "acme"))
    await made(other, sink.url.replace("token=t", "other"))
    everybodys = await operator("POST", "webhooks?tenant=*", json={"name": "all", "url": sink.url})
    assert everybodys.json()["tenant"] is None
    with plane.store.write() as connection:
        theirs = Alarm("iabcdefghijk", AlarmKind.FULL, raised_at_ms=1, says="full")
        own = Alarm("", AlarmKind.GATEWAY_SILENT, "gateway-0", raised_at_ms=1, says="silent")
        told = [(theirs, AlarmEvent.RAISED, Place("acme", "shop", "c")), (own, AlarmEvent.RAISED, None)]
        webhooks.tell(connection, told, epoch_ms())
    await send(runner)
    await send(runner)
    came = [(headers["request"].split("?")[1].split()[0], json.loads(body)) for headers, body in sink.came]
    came.sort(key=lambda one: one[0])
    assert [(where, body["data"]["kind"]) for where, body in came if where != "token=t"] == [("acme", "full")]
    assert len(came) == 3
    assert came[0][1]["data"]["instance_name"] == "shop" and came[0][1]["type"] == "alarm.raised"


async def test_a_restart_goes_on_where_it_was_and_two_do_not_send_twice(
    operator: Caller, plane: Console, make_console: Callable[..., Console], sink: Sink
) -> None:
    class Nobody:
        since_ms = None

        def holds(self, _connection: object) -> bool:
            return False

    hook = await made(operator, sink.url)
    await operator("POST", f"webhooks/{hook['id']}/test")
    sink.answer = says("HTTP/1.1 503 Later\r\n\r\n")
    now_ms = epoch_ms()
    await send(WebhookRunner(plane.webhooks, WebhookSink(TenantHttp(LOOPBACK)), SoleOffice()), now_ms)
    again = make_console()
    try:
        lost = WebhookRunner(again.webhooks, WebhookSink(TenantHttp(LOOPBACK)), Nobody())
        sink.answer = OK
        await send(lost, now_ms + 60_000)
        assert [one["attempts"] for one in await log(operator, hook)] == [1], "its office was lost meanwhile"
        sink_again = WebhookSink(TenantHttp(LOOPBACK))
        await send(WebhookRunner(again.webhooks, sink_again, SoleOffice()), now_ms + 60_000)
    finally:
        again.close()
    [told] = await log(operator, hook)
    assert (told["state"], told["attempts"]) == ("delivered", 2)
    assert all(verified(hook["signing_secret"], headers, body) for headers, body in sink.came)


async def test_anothers_webhook_is_not_there(operator: Caller, sink: Sink) -> None:
    owner, stranger = await operator.tenant("acme"), await operator.tenant("other")
    hook = await made(owner, sink.url)
    for method, path in (("DELETE", ""), ("POST", "/test"), ("GET", "/deliveries")):
        assert (await stranger(method, f"webhooks/{hook['id']}{path}")).status_code == 404
    assert (await stranger("GET", "webhooks")).json()["items"] == []
    viewer = await operator.tenant("acme", "viewer")
    assert (await viewer("GET", "webhooks")).status_code == 403, "URLs may hold tokens"
    assert (await owner("DELETE", f"webhooks/{hook['id']}")).status_code == 204
    wrong = await owner("POST", "webhooks", json={"name": "a b", "url": "file:///etc/passwd"})
    assert {one["field"] for one in wrong.json()["errors"]} == {"name", "url"}
