"""E-mail with a real SMTP server beside: asked first, told then, tried again, ended by its link; and servers
that hang, refuse or put off."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import aiosmtplib
import httpx
import pytest

from runtime.clock import epoch_ms
from runtime.tasks import Supervised
from tenants.app import create_console_app
from tenants.console import Console
from tenants.mail_sink import MailSink, message_of, refused
from tenants.rules.alarms import Alarm, AlarmEvent, AlarmKind
from tenants.rules.mail_settings import MailSettings
from tenants.rules.mails import (
    CONFIRM,
    HOUR_MS,
    LINK_MS,
    MAILS_MAX_PER_ADDRESS,
    MAILS_SHARE_MAX,
    OPERATORS_MAILS_MAX_PER_ADDRESS,
    Mail,
)
from tenants.rules.webhooks import BACKOFF_MS, LOG_MAX, DeliveryState, Kind
from tenants.store.instances import Place
from tenants.store.webhooks import Delivery, Webhook
from tenants.usecases import webhooks
from tenants.usecases.webhooks import Due, Outcome
from tenants.webhook_runner import MAIL_LANES, WebhookRunner
from tests.servers.smtp_server import GREETING, SmtpServer
from tests.unit.tenants.conftest import Caller
from traffic.login_limit import FAILURES_MAX_PER_PAIR

CERTIFICATES: Final = Path(__file__).resolve().parents[2] / "certificates"
QUESTION: Final = Due(
    Delivery("msg_1", "e1", CONFIRM, '{"data": {"email": "e1"}}', 0, DeliveryState.PENDING, 0, 0),
    Webhook("e1", "acme", "", "ops@example.com", "salt", "", 0, "key:owner", kind=Kind.EMAIL),
    b"key",
)


@pytest.fixture
async def smtp() -> AsyncIterator[SmtpServer]:
    made = SmtpServer()
    await made.start()
    yield made
    made.close()


@pytest.fixture
async def plane(
    make_console: Callable[..., Console], smtp: SmtpServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Console]:
    """A console that sends mail when a test says so."""

    async def idle(_self: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("tenants.webhook_runner.WebhookRunner.run", idle)
    monkeypatch.setattr("tenants.alarm_runner.AlarmRunner.run", idle)
    console, tasks = make_console(mail=settings(smtp.port)), Supervised()
    console.start_feed(tasks)
    console.start(tasks)
    yield console
    await tasks.aclose()
    console.close()


def settings(port: int) -> MailSettings:
    return MailSettings(
        host="127.0.0.1",
        port=port,
        is_tls=False,
        sender="portico@example.com",
        console_url="https://console.example",
    )


@pytest.fixture
def runner(plane: Console) -> WebhookRunner:
    assert plane.mail_runner is not None
    return plane.mail_runner


async def send(runner: WebhookRunner, now_ms: int | None = None) -> None:
    await runner.begin(epoch_ms() if now_ms is None else now_ms)
    await runner.settled()


async def added(caller: Caller, address: str = "ops@example.com", tenant: str = "") -> dict[str, Any]:
    path = f"emails?tenant={tenant}" if tenant else "emails"
    answer = await caller("POST", path, json={"address": address})
    assert answer.status_code == 201, answer.text
    return answer.json()  # type: ignore[no-any-return]


async def log(caller: Caller, email: dict[str, Any]) -> list[dict[str, Any]]:
    return (await caller("GET", f"emails/{email['id']}/deliveries")).json()["items"]  # type: ignore[no-any-return]


def raise_alarm(plane: Console, tenant: str, subject: str = "") -> None:
    alarm = Alarm("i123456789ab", AlarmKind.FULL, subject, says="it is full", raised_at_ms=epoch_ms())
    with plane.store.write() as connection:
        place = Place(tenant, "shop", "builtin-1")
        webhooks.tell(connection, [(alarm, AlarmEvent.RAISED, place)], epoch_ms())


async def test_an_address_is_asked_then_told_and_ends_it_by_a_link(
    plane: Console, operator: Caller, client: httpx.AsyncClient, runner: WebhookRunner, smtp: SmtpServer
) -> None:
    owner, other = await operator.tenant("acme"), await operator.tenant("bcorp")
    email = await added(owner)
    raise_alarm(plane, "acme")
    await send(runner)
    await send(runner)
    [(to, question)] = smtp.came
    assert (to, question["subject"]) == (["ops@example.com"], "[Portico] May alarms be mailed to you?")
    assert (question["auto-submitted"], question["from"]) == (
        "auto-generated",
        "Portico <portico@example.com>",
    )
    confirm, refuse = smtp.secret("confirm"), smtp.secret("remove")
    shown = (await owner("GET", f"emails/{email['id']}/deliveries")).text + (
        await owner("GET", "emails")
    ).text
    assert confirm.rpartition(".")[2] not in shown, "who adds an address cannot confirm it for its reader"
    assert (await owner("POST", f"emails/{email['id']}/test")).status_code == 409

    async def follow(secret: str) -> httpx.Response:
        return await client.post("/v1/email-links", json={"secret": secret})

    for wrong in ("x", confirm[:-1] + "~", refuse.replace("remove", "confirm"), confirm.replace("e", "f")):
        assert (await follow(wrong)).status_code == 404, wrong
    for _ in range(2):
        done = await follow(confirm)
        assert done.json() == {"address": "ops@example.com", "tenant": "acme", "done": "confirm"}
    raise_alarm(plane, "acme")
    raise_alarm(plane, "bcorp")
    await send(runner)
    await send(runner)
    assert len(smtp.came) == 2 and "it is full" in smtp.text and "tenant: acme" in smtp.text
    assert (await owner("GET", "emails")).json()["items"][0]["state"] == "confirmed"
    for method, path in (("DELETE", ""), ("POST", "/test"), ("GET", "/deliveries")):
        assert (await other(method, f"emails/{email['id']}{path}")).status_code == 404
        assert (await owner(method, f"webhooks/{email['id']}{path}")).status_code == 404
    assert (await other("GET", "emails")).json()["items"] == []
    assert (await follow(smtp.secret("remove"))).json()["done"] == "remove"
    assert (await follow(confirm)).status_code == 404
    raise_alarm(plane, "acme")
    await send(runner)
    assert len(smtp.came) == 2
    actions = [(one["action"], one["actor"]) for one in (await owner("GET", "audit")).json()["items"]]
    assert {("email.add", "key:owner-key"), ("email.confirm", "link"), ("email.remove", "link")} <= set(
        actions
    )


async def test_strangers_are_asked_seldom_and_not_again_when_they_refuse(
    operator: Caller, client: httpx.AsyncClient, runner: WebhookRunner, smtp: SmtpServer
) -> None:
    owner = await operator.tenant("acme")
    email = await added(owner)
    assert (await owner("POST", "emails", json={"address": "ops+1@example.com"})).status_code == 409
    await send(runner)
    await client.post("/v1/email-links", json={"secret": smtp.secret("remove")})
    again = await owner("POST", "emails", json={"address": "ops+2@example.com"})
    assert again.status_code == 409 and "wants nothing" in again.json()["detail"]
    asked = 0
    for number in range(20):
        answer = await owner("POST", "emails", json={"address": f"a{number}@example.com"})
        if answer.status_code == 201:
            asked += 1
            await owner("DELETE", f"emails/{answer.json()['id']}")
    assert asked == 9, "what was removed was asked all the same"
    assert email["state"] == "asked"


async def test_an_address_is_disabled_and_enabled_without_being_asked_anew(
    plane: Console, operator: Caller, client: httpx.AsyncClient, runner: WebhookRunner, smtp: SmtpServer
) -> None:
    owner, other = await operator.tenant("acme"), await operator.tenant("bcorp")
    path = f"emails/{(await added(owner))['id']}"
    assert (await owner("PATCH", path, json={"enabled": False})).status_code == 409, "it is only asked yet"
    await send(runner)
    await client.post("/v1/email-links", json={"secret": smtp.secret("confirm")})
    assert (await other("PATCH", path, json={"enabled": False})).status_code == 404
    raise_alarm(plane, "acme", subject="waits")
    assert (await owner("PATCH", path, json={"enabled": False})).json()["enabled"] is False
    raise_alarm(plane, "acme", subject="never")
    await send(runner)
    assert len(smtp.came) == 1 and (await owner("POST", f"{path}/test")).status_code == 409
    assert (await owner("PATCH", path, json={"enabled": True})).json()["state"] == "confirmed"
    await send(runner)
    await send(runner)
    assert len(smtp.came) == 2 and "subject: waits" in smtp.text
    actions = {one["action"] for one in (await owner("GET", "audit")).json()["items"]}
    assert {"email.disable", "email.enable"} <= actions


async def test_who_tries_links_is_sent_away_for_a_minute(
    plane: Console, operator: Caller, client: httpx.AsyncClient, runner: WebhookRunner, smtp: SmtpServer
) -> None:
    await added(operator)
    await send(runner)
    right = {"json": {"secret": smtp.secret("confirm")}}
    for number in range(FAILURES_MAX_PER_PAIR):
        wrong = await client.post("/v1/email-links", json={"secret": f"confirm.e1.{number}"})
        assert wrong.status_code == 404
    refused = await client.post("/v1/email-links", **right)
    assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 0
    elsewhere = httpx.ASGITransport(app=create_console_app(plane), client=("192.0.2.7", 1))
    async with httpx.AsyncClient(transport=elsewhere, base_url="http://console") as reader:
        assert (await reader.post("/v1/email-links", **right)).status_code == 200


async def test_looking_at_a_links_page_agrees_to_nothing(
    operator: Caller, client: httpx.AsyncClient, runner: WebhookRunner, smtp: SmtpServer
) -> None:
    await added(operator)
    await send(runner)
    secret = smtp.secret("confirm")
    for url in ("/", f"/mail/{secret}", "/v1/email-links", f"/v1/email-links/{secret}"):
        for method in ("GET", "HEAD"):
            await client.request(method, url)
    assert (await operator("GET", "emails")).json()["items"][0]["state"] == "asked"


async def test_a_link_ends_after_a_day(
    operator: Caller,
    client: httpx.AsyncClient,
    runner: WebhookRunner,
    smtp: SmtpServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await added(operator)
    await send(runner)
    later_ms = epoch_ms() + LINK_MS
    monkeypatch.setattr("tenants.usecases.mails.epoch_ms", lambda: later_ms)
    assert (await client.post("/v1/email-links", json={"secret": smtp.secret("confirm")})).status_code == 404
    assert (await operator("GET", "emails")).json()["items"][0]["state"] == "unanswered"
    await added(operator)


@pytest.mark.parametrize(
    ("answers", "state", "why"),
    [
        ({"RCPT": "451 4.7.1 greylisted"}, "pending", "refuses the address: 451 4.7.1 greylisted"),
        ({"RCPT": "550 5.1.1 nobody"}, "failed", "refuses the address: 550 5.1.1 nobody"),
        ({"DATA": "554 5.7.1 spam"}, "failed", "refuses the mail: 554 5.7.1 spam"),
        ({"MAIL": "550 who"}, "pending", "refuses the sender"),
        ({"EHLO": "421 busy", "HELO": "421 busy"}, "pending", "the mail server"),
    ],
)
async def test_what_a_server_answers_is_told_and_tried_again_where_that_helps(
    operator: Caller, runner: WebhookRunner, smtp: SmtpServer, answers: dict[str, str], state: str, why: str
) -> None:
    email = await added(operator)
    smtp.answers = answers
    await send(runner)
    [told] = await log(operator, email)
    assert (told["state"], told["attempts"]) == (state, 1) and why in told["reason"], told
    assert why in (await operator("GET", "emails")).json()["items"][0]["trouble"]
    smtp.answers, smtp.came = {}, []
    await send(runner, epoch_ms() + BACKOFF_MS[0])
    assert len(smtp.came) == (state == "pending")


async def test_a_server_that_hangs_or_is_gone_holds_up_no_webhook(
    plane: Console,
    operator: Caller,
    runner: WebhookRunner,
    smtp: SmtpServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tenants.mail_sink.ATTEMPT_S_MAX", 1.0)
    email = await added(operator)
    smtp.stalls_at = GREETING
    await runner.begin(epoch_ms())
    await operator("POST", "webhooks", json={"name": "pager", "url": "http://127.0.0.1:1/"})
    hook = (await operator("GET", "webhooks")).json()["items"][0]
    await operator("POST", f"webhooks/{hook['id']}/test")
    await plane.webhook_runner.begin(epoch_ms())
    await plane.webhook_runner.settled()
    assert (await operator("GET", f"webhooks/{hook['id']}/deliveries")).json()["items"][0]["attempts"] == 1
    await runner.settled()
    assert "did not answer within 1 s" in (await log(operator, email))[0]["reason"]
    smtp.close()
    await send(runner, epoch_ms() + BACKOFF_MS[0])
    [told] = await log(operator, email)
    assert told["reason"] == "the mail server cannot be reached" and told["attempts"] == 2


def tls(name: str) -> ssl.SSLContext:
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(CERTIFICATES / f"{name}.pem", CERTIFICATES / f"{name}.key")
    return made


@pytest.fixture
async def behind_login(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SmtpServer]:
    """A server that takes mail through TLS alone, and from one user."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "authority.pem"))
    made = SmtpServer(tls("gateway"), {"portico": "right"})
    await made.start()
    yield made
    made.close()


async def attempt(server: SmtpServer, **more: Any) -> Outcome:
    told = replace(settings(server.port), **more)
    return await MailSink(told, lambda _now_ms: []).send(QUESTION)


async def test_a_login_goes_through_starttls(behind_login: SmtpServer) -> None:
    outcome = await attempt(behind_login, user="portico", password="right")
    assert outcome == Outcome(250, "")
    assert behind_login.came_by == [(True, "portico")]
    assert behind_login.came[0][0] == ["ops@example.com"]


async def test_tls_may_begin_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "authority.pem"))
    server = SmtpServer()
    await server.start(tls("gateway"))
    assert await attempt(server, is_tls=True) == Outcome(250, "")
    assert len(server.came) == 1
    server.close()


@pytest.mark.parametrize("is_tls", [False, True])
async def test_a_certificate_that_nobody_vouches_for_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, is_tls: bool
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "others.pem"))
    server = SmtpServer(None if is_tls else tls("gateway"))
    await server.start(tls("gateway") if is_tls else None)
    outcome = await attempt(server, is_tls=is_tls)
    assert outcome == Outcome(None, "the certificate of the mail server is not trusted here")
    assert server.came == []
    server.close()


async def test_a_wrong_password_is_the_operators_to_mend(
    plane: Console, operator: Caller, behind_login: SmtpServer
) -> None:
    owner = await operator.tenant("acme")
    email = await added(owner)

    def runner(password: str) -> WebhookRunner:
        told = replace(settings(behind_login.port), user="portico", password=password)
        sink = MailSink(told, plane.mails.handed_over)
        return WebhookRunner(plane.webhooks, sink, plane.office, Kind.EMAIL, MAIL_LANES)

    await send(runner("wrong"))
    [told] = await log(owner, email)
    assert told["reason"] == "the mail server refuses the login that operators configured"
    assert (told["state"], told["http_status"]) == ("pending", 535)
    await send(runner("right"), epoch_ms() + BACKOFF_MS[0])
    assert (await log(owner, email))[0]["state"] == "delivered"


async def test_a_login_is_not_told_to_a_server_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    smtp = SmtpServer(logins={"portico": "right"})
    await smtp.start()

    def found(host: str, port: int, **_more: object) -> list[Any]:
        assert host == "mail.example.com"
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]

    monkeypatch.setattr("tenants.mail_sink.socket.getaddrinfo", found)
    outcome = await attempt(smtp, host="mail.example.com", user="portico", password="right")
    assert outcome.error == "the mail server offers no login, or no TLS, as operators configured"
    assert (smtp.came, smtp.tried) == ([], [])
    monkeypatch.undo()
    outcome = await attempt(smtp, user="portico", password="right")
    assert (outcome.error, smtp.tried) == ("", ["right"]), "on this machine nobody reads along"
    smtp.close()


async def test_another_tenants_flood_leaves_an_address_and_operators_their_mails(
    plane: Console,
    operator: Caller,
    client: httpx.AsyncClient,
    runner: WebhookRunner,
    smtp: SmtpServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One address agreed for two tenants, and for operators; one of the tenants has it told without end."""
    busy, calm = await operator.tenant("busy"), await operator.tenant("calm")
    emails = {}
    for name, caller in (("busy", busy), ("calm", calm), ("*", operator)):
        emails[name] = await added(caller, tenant=name)
        await send(runner)
        await client.post("/v1/email-links", json={"secret": smtp.secret("confirm")})
    smtp.came.clear()
    for number in range(MAILS_MAX_PER_ADDRESS + 5):
        raise_alarm(plane, "busy", subject=f"s{number}")
    raise_alarm(plane, "calm")
    for _ in range(40):
        await send(runner)
    of = [str(mail["to"]) + mail.get_content() for _, mail in smtp.came]
    assert sum("alarms of tenant busy" in one for one in of) == MAILS_MAX_PER_ADDRESS - 1  # and the question
    assert sum("alarms of tenant calm" in one for one in of) == 1
    ours = [one for one in of if "alarms of all tenants" in one]
    assert sum("tenant: busy" in one for one in ours) == MAILS_SHARE_MAX
    assert sum("tenant: calm" in one for one in ours) == 1
    held = [one for one in await log(busy, emails["busy"]) if one["state"] == "pending"]
    assert {(one["attempts"], one["reason"]) for one in held} == {
        (0, "not sent yet: 20 mails went to this address within an hour, which is as many as may be")
    }
    assert runner.counts["held"] and runner.counts["failed"] == 0
    sink = MailSink(settings(smtp.port), plane.mails.handed_over)
    after = WebhookRunner(plane.webhooks, sink, plane.office, Kind.EMAIL, MAIL_LANES)
    raise_alarm(plane, "busy", subject="another")
    await send(after)
    assert len(smtp.came) == len(of), "what one process sent is counted by the next"
    later_ms = epoch_ms() + HOUR_MS
    monkeypatch.setattr("tenants.mail_sink.epoch_ms", lambda: later_ms)
    for _ in range(30):
        await send(after, later_ms)
    left = [one for one in await log(busy, emails["busy"]) if one["state"] == "pending"]
    assert left == []


async def test_a_log_that_a_flood_has_filled_makes_no_room_for_more_mails(
    plane: Console,
    operator: Caller,
    client: httpx.AsyncClient,
    runner: WebhookRunner,
    smtp: SmtpServer,
) -> None:
    """What was sent is counted from the log, and that is bounded: its bound must not be the budget's end."""
    assert OPERATORS_MAILS_MAX_PER_ADDRESS > LOG_MAX
    await added(operator, tenant="*")
    await send(runner)
    await client.post("/v1/email-links", json={"secret": smtp.secret("confirm")})
    smtp.came.clear()
    for number in range(OPERATORS_MAILS_MAX_PER_ADDRESS + MAILS_SHARE_MAX):
        raise_alarm(plane, f"t{number}")  # many tenants: none has its share full
        await send(runner)
    assert len(smtp.came) == OPERATORS_MAILS_MAX_PER_ADDRESS - 1  # and the question


async def test_without_a_server_nobody_is_asked(
    make_console: Callable[..., Console], operator: Caller
) -> None:
    console = make_console()
    assert console.mail_runner is None
    assert (await operator("POST", "emails", json={"address": "a\r\nBcc: b@example.com"})).status_code == 422
    console.close()


def test_headers_cannot_be_broken_out_of() -> None:
    mail = Mail("x\r\nBcc: all@example.com", "text\n.\r\nMAIL FROM", "https://console.example/#/mail/x")
    with pytest.raises(ValueError, match=r"linefeed|carriage"):
        message_of(mail, "ops@example.com", "msg_1", settings(25))


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (aiosmtplib.SMTPAuthenticationError(535, "5.7.8 user portico at 10.0.0.1"), "the login"),
        (aiosmtplib.SMTPConnectError("connecting to smtp.internal"), "cannot be reached"),
        (aiosmtplib.SMTPServerDisconnected("smtp.internal"), "hung up"),
        (aiosmtplib.SMTPNotSupported("smtp.internal"), "cannot be used"),
    ],
)
def test_tenants_learn_nothing_of_the_operators_network(error: Exception, says: str) -> None:
    outcome = refused(error)
    assert says in outcome.error and not outcome.is_final
    assert "internal" not in outcome.error and "10.0.0.1" not in outcome.error
