"""E-mail with a real SMTP server beside: asked first, told then, tried again, ended by its link; and servers
that hang, refuse or put off."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiosmtplib
import httpx
import pytest

from runtime.clock import epoch_ms
from runtime.tasks import Supervised
from tenants.console import Console
from tenants.mail_sink import message_of, refused
from tenants.rules.alarms import Alarm, AlarmEvent, AlarmKind
from tenants.rules.mail_settings import MailSettings
from tenants.rules.mails import LINK_MS, Mail
from tenants.rules.webhooks import BACKOFF_MS
from tenants.store.instances import Place
from tenants.usecases import webhooks
from tenants.webhook_runner import WebhookRunner
from tests.servers.smtp_server import SmtpServer
from tests.unit.tenants.conftest import Caller


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


async def added(caller: Caller, address: str = "ops@example.com") -> dict[str, Any]:
    answer = await caller("POST", "emails", json={"address": address})
    assert answer.status_code == 201, answer.text
    return answer.json()  # type: ignore[no-any-return]


async def log(caller: Caller, email: dict[str, Any]) -> list[dict[str, Any]]:
    return (await caller("GET", f"emails/{email['id']}/deliveries")).json()["items"]  # type: ignore[no-any-return]


def raise_alarm(plane: Console, tenant: str) -> None:
    alarm = Alarm("i123456789ab", AlarmKind.FULL, "", says="it is full", raised_at_ms=epoch_ms())
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
        ({"END": "554 5.7.1 spam"}, "failed", "refuses the mail: 554 5.7.1 spam"),
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
    smtp.is_silent = True
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
