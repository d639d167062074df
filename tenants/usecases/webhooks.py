"""Webhooks: who is told of alarms, and the queue of what they are told."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

from sqlalchemy import Connection

from contracts.shapes import URL_SHAPE, matching
from runtime.clock import epoch_ms
from tenants import credentials
from tenants.rules.alarms import MEANINGS, Alarm, AlarmEvent, Severity
from tenants.rules.errors import Conflict, Invalid, NotFound
from tenants.rules.lifecycle import Fault, name_fault
from tenants.rules.mails import HOUR_MS
from tenants.rules.model import Caller
from tenants.rules.webhook_queue import NOBODY, Waiting, unsent
from tenants.rules.webhooks import (
    LOG_MAX,
    WEBHOOKS_MAX,
    DeliveryState,
    Kind,
    fault_of_url,
    next_try_ms,
    secret_of,
)
from tenants.store import audit, webhooks
from tenants.store.engine import Store
from tenants.store.instances import Place
from tenants.store.shared_session import Office
from tenants.store.webhooks import OPERATORS, Delivery, Resting, Webhook

_URL: Final = matching(URL_SHAPE)
OTHER_SECRET: Final = "the deployment's secret is another than when the webhook was made: make it anew"


@dataclass(frozen=True, slots=True)
class Made:
    """A webhook with its secret, which no log shows."""

    webhook: Webhook
    secret: str = field(repr=False)


class Outcome(NamedTuple):
    """How an attempt went."""

    status: int | None
    """The other side's code; None: there was no answer."""
    error: str
    """Empty: it was taken."""
    is_final: bool = False
    """Whether another attempt would change nothing."""
    again_ms: int | None = None
    """No attempt was made: there is room for one then."""


@dataclass(frozen=True, slots=True)
class Due:
    """A message, where it goes, and what signs it; None: the secret it was made with is gone."""

    delivery: Delivery
    webhook: Webhook
    key: bytes | None = field(repr=False)


class Webhooks:
    """The use cases. Calls block. `secret` is the deployment's, from which and a salt secrets follow."""

    def __init__(self, store: Store, secret: str | None) -> None:
        self._store = store
        self._secret = secret

    def of_tenant(self, tenant: str) -> list[Webhook]:
        """By name, without their secrets."""
        with self._store.read() as connection:
            return webhooks.of_tenant(connection, tenant, Kind.HTTP)

    def create(self, caller: Caller, tenant: str, name: str, url: str) -> Made:
        """A new one. Raises: Invalid, Conflict."""
        faults = [Fault("name", fault)] if (fault := name_fault(name, "a webhook")) else []
        wrong, is_shaped = fault_of_url(url), _URL.match(url) is not None
        if wrong is not None or not is_shaped:
            sentence = wrong or "must have a host, perhaps a port, a path and a query"
            faults.append(Fault("url", sentence, is_said=not is_shaped))
        if faults:
            raise Invalid(faults)
        if self._secret is None:
            raise Conflict("this control plane has no deployment secret, from which secrets follow")
        with self._store.write() as connection:
            known = webhooks.of_tenant(connection, tenant, Kind.HTTP)
            if len(known) >= WEBHOOKS_MAX:
                raise Conflict(f"there are {WEBHOOKS_MAX} webhooks, which is as many as there may be")
            webhook_id, salt = credentials.new_id("w"), credentials.new_salt()
            key = credentials.webhook_key(self._secret, webhook_id, salt)
            now_ms = epoch_ms()
            checked = credentials.sha256(secret_of(key))
            made = Webhook(webhook_id, tenant, name, url, salt, checked, now_ms, caller.actor[:160])
            webhooks.add(connection, made)
            _audit(connection, caller, made, "webhook.create")
        return Made(made, secret_of(key))

    def switch(self, caller: Caller, webhook_id: str, *, enabled: bool) -> Webhook:
        """Have it told, or of nothing: what happens meanwhile it never learns. Raises: NotFound."""
        with self._store.write() as connection:
            found = existing(connection, caller, webhook_id, Kind.HTTP)
            if found.enabled != enabled:
                webhooks.switch(connection, found.id, enabled=enabled)
                _audit(connection, caller, found, f"webhook.{'enable' if enabled else 'disable'}")
            return replace(found, enabled=enabled)

    def delete(self, caller: Caller, webhook_id: str) -> None:
        """With its queue and log. Raises: NotFound."""
        with self._store.write() as connection:
            found = existing(connection, caller, webhook_id, Kind.HTTP)
            webhooks.remove(connection, found.id)
            _audit(connection, caller, found, "webhook.delete")

    def test(self, caller: Caller, webhook_id: str) -> Delivery:
        """Send a message that says it is one. Raises: NotFound, Conflict when it is told of nothing."""
        with self._store.write() as connection:
            found = existing(connection, caller, webhook_id, Kind.HTTP)
            if not found.enabled:
                raise Conflict(f"webhook '{found.name}' is disabled: it is sent nothing")
            now_ms = epoch_ms()
            data: dict[str, object] = {"webhook": found.id, "says": "this is a test"}
            [new] = enqueue(connection, found, [said("webhook.test", data, now_ms)], now_ms)
            _audit(connection, caller, found, "webhook.test")
            return new

    def log(self, caller: Caller, webhook_id: str) -> list[Delivery]:
        """What was sent and how it went, newest first. Raises: NotFound."""
        with self._store.read() as connection:
            return webhooks.log(connection, existing(connection, caller, webhook_id, Kind.HTTP).id)

    # --- by themselves --------------------------------------------------------------------------

    def due(self, now_ms: int, resting: Resting, per_tenant: int, limit: int, kind: Kind) -> list[Due]:
        """What is to be sent now: of each webhook the oldest that is due, of each tenant a few."""
        with self._store.read() as connection:
            found = webhooks.due(connection, now_ms, resting, per_tenant, limit, kind)
        return [Due(delivery, webhook, self._key(webhook)) for delivery, webhook in found]

    def _key(self, webhook: Webhook) -> bytes | None:
        if self._secret is None:
            return None
        key = credentials.webhook_key(self._secret, webhook.id, webhook.salt)
        return key if credentials.same(credentials.sha256(secret_of(key)), webhook.secret_sha256) else None

    def tried(self, office: Office, sent: Delivery, outcome: Outcome, now_ms: int) -> bool:
        """How an attempt went. Nothing is written once another process sends, as it tries the same message.

        Whether it was.
        """
        status, error, is_final, held_until_ms = outcome
        attempts = sent.attempts + 1
        after = replace(sent, attempts=attempts, tried_at_ms=now_ms, status=status, error=error)
        again_ms = None if not error else next_try_ms(attempts, now_ms)
        if held_until_ms is not None:
            after = replace(sent, next_at_ms=held_until_ms, error=error)
        elif not error:
            after = replace(after, state=DeliveryState.DELIVERED)
        elif again_ms is None or is_final:
            after = replace(after, state=DeliveryState.FAILED)
        else:
            after = replace(after, next_at_ms=again_ms)
        with self._store.write() as connection:
            is_ours = office.holds(connection)
            if is_ours:
                webhooks.tried(connection, after)
            return is_ours


def tell(
    connection: Connection, notices: Sequence[tuple[Alarm, AlarmEvent, Place | None]], now_ms: int
) -> None:
    """Put what happened to alarms into the queues of those who are told, in a write transaction."""
    if not notices:
        return
    by_tenant: dict[str, list[Webhook]] = {}
    for one in webhooks.told(connection):
        by_tenant.setdefault(one.tenant, []).append(one)
    messages: dict[str, list[Said]] = {}
    for alarm, event, place in notices:
        about = said(f"alarm.{event}", _data(alarm, place), now_ms)
        for tenant in {OPERATORS} if place is None else {OPERATORS, place.tenant}:
            messages.setdefault(tenant, []).append(about)
    for tenant, told in messages.items():
        for webhook in by_tenant.get(tenant, ()):
            enqueue(connection, webhook, told, now_ms)


class Said(NamedTuple):
    """What is said to every webhook that is told of it."""

    event: str
    body: str
    as_waiting: Waiting
    """Without an id."""


def said(event: str, data: dict[str, object], now_ms: int) -> Said:
    """What happened, as every webhook is told it."""
    body = json.dumps({"type": event, "timestamp": _time(now_ms), "data": data})
    return Said(event, body, _as_waiting("", data))


def _as_waiting(message_id: str, data: Mapping[str, object]) -> Waiting:
    about = None
    if "kind" in data:
        about = (str(data.get("instance_id") or ""), str(data["kind"]), str(data.get("subject", "")))
    is_critical = data.get("severity") == Severity.CRITICAL.value
    return Waiting(message_id, str(data.get("tenant") or NOBODY), about, is_critical)


def enqueue(connection: Connection, webhook: Webhook, told: Sequence[Said], now_ms: int) -> list[Delivery]:
    """Further messages of one webhook, as they are kept: what may not wait is noted as not sent."""
    new = [
        Delivery(
            *(credentials.new_id("msg_"), webhook.id, one.event, one.body),
            *(now_ms, DeliveryState.PENDING, 0, now_ms),
        )
        for one in told
    ]
    waiting = [
        _as_waiting(one.id, json.loads(one.body)["data"]) for one in webhooks.pending(connection, webhook.id)
    ]
    come = [one.as_waiting._replace(id=each.id) for one, each in zip(told, new, strict=True)]
    ended = unsent([*waiting, *come], is_operators=webhook.tenant == OPERATORS)
    webhooks.end(connection, {one.id: ended[one.id] for one in waiting if one.id in ended})
    kept = [
        replace(one, state=DeliveryState.FAILED, error=ended[one.id]) if one.id in ended else one
        for one in new
    ]
    lost = [one for one in kept if one.id in ended][-LOG_MAX:]  # the log keeps no more
    # Mails are counted by what the log says was sent: a flood that makes it short would make room for more.
    counted_since_ms = now_ms - HOUR_MS if webhook.kind is Kind.EMAIL else None
    told_on = [*(one for one in kept if one.id not in ended), *lost]
    webhooks.enqueue(connection, webhook.id, told_on, counted_since_ms)
    return kept


def _data(alarm: Alarm, place: Place | None) -> dict[str, object]:
    meaning = MEANINGS[alarm.kind]
    return {
        "kind": alarm.kind.value,
        "subject": alarm.subject,
        "instance_id": alarm.instance_id or None,
        "instance_name": None if place is None else place.name,
        "tenant": None if place is None else place.tenant,
        "severity": meaning.severity.value,
        "title": meaning.title,
        "says": alarm.says,
        "remedy": meaning.remedy,
        "raised_at": None if alarm.raised_at_ms is None else _time(alarm.raised_at_ms),
    }


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def existing(connection: Connection, caller: Caller, webhook_id: str, kind: Kind) -> Webhook:
    """Raises: NotFound, also when it is another tenant's."""
    found = webhooks.by_id(connection, webhook_id, kind) if webhook_id.isprintable() else None
    if found is None or not (caller.is_operator or found.tenant == caller.tenant):
        what = "webhook" if kind is Kind.HTTP else "e-mail address"
        raise NotFound(f"there is no {what} '{webhook_id[:80]}'")
    return found


def _audit(connection: Connection, caller: Caller, webhook: Webhook, action: str) -> None:
    detail = f"{webhook.name} {webhook.url.partition('?')[0]}"
    entry = audit.Entry(caller.actor, webhook.tenant or None, action, webhook.id, detail, caller.address)
    audit.record(connection, entry, epoch_ms())
