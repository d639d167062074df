"""E-mail addresses that are told of alarms: added, asked, confirmed, removed. Their queue is webhooks'."""

import json
from dataclasses import replace
from typing import Final, NamedTuple

from sqlalchemy import Connection

from runtime.clock import epoch_ms
from runtime.http_limits import holder_of
from tenants import credentials
from tenants.rules.errors import Conflict, Exists, Invalid, NotFound, TooMany
from tenants.rules.lifecycle import Fault
from tenants.rules.mail_addresses import address_key, fault_of_address
from tenants.rules.mail_settings import MailSettings
from tenants.rules.mails import (
    ADDRESSES_MAX,
    CONFIRM,
    HOUR_MS,
    TEST,
    AddressState,
    Asked,
    Handed,
    Purpose,
    fault_of_question,
    link_parts,
    link_secret,
    state_of,
)
from tenants.rules.model import Caller
from tenants.rules.webhooks import Kind, secret_of
from tenants.shared_limits import LoginLimits
from tenants.store import audit, mail_questions, webhooks
from tenants.store.engine import Store
from tenants.store.webhooks import Delivery, Webhook
from tenants.usecases.webhooks import enqueue, existing, said

_BY_MAIL: Final = "(mail)"
"""Stands for the user where wrong links are counted."""
_LINK: Final = "link"
"""Who acts, in the audit log: somebody with a mail's link."""
_GONE: Final = "this link does nothing: it is not whole, was used, or ended"


class Email(NamedTuple):
    """An address, how far it is, and what its mails ran into."""

    row: Webhook
    state: AddressState
    trouble: Delivery | None
    """The message that was tried last, where that failed."""


class Followed(NamedTuple):
    """What a link did."""

    address: str
    tenant: str
    purpose: Purpose


class Mails:
    """The use cases. Calls block. `secret` is the deployment's, from which links follow; `settings` None:
    operators have named no server."""

    def __init__(
        self, store: Store, limits: LoginLimits, secret: str | None, settings: MailSettings | None
    ) -> None:
        self._store = store
        self._limits = limits
        self._secret = secret
        self.settings = settings

    def of_tenant(self, tenant: str) -> list[Email]:
        """By address."""
        with self._store.read() as connection:
            return [_email(connection, one) for one in webhooks.of_tenant(connection, tenant, Kind.EMAIL)]

    def add(self, caller: Caller, tenant: str, address: str) -> Email:
        """Ask an address whether it wants the tenant's alarms. Raises: Invalid, Exists, Conflict."""
        if (fault := fault_of_address(address)) is not None:
            raise Invalid([Fault("address", fault)])
        if self.settings is None or self._secret is None:
            raise Conflict("this deployment sends no e-mail: operators name a server with --smtp-url")
        now_ms, key = epoch_ms(), address_key(address)
        with self._store.write() as connection:
            known = webhooks.of_tenant(connection, tenant, Kind.EMAIL)
            for one in known:
                if address_key(one.url) != key:
                    continue
                if state_of(one.confirmed_at_ms, one.created_at_ms, now_ms) is not AddressState.UNANSWERED:
                    raise Exists(f"'{address}' is there already")
                webhooks.remove(connection, one.id)
                known = [each for each in known if each.id != one.id]
            if len(known) >= ADDRESSES_MAX:
                raise Conflict(f"there are {ADDRESSES_MAX} addresses, which is as many as there may be")
            asked = mail_questions.asked(connection, key, now_ms)
            if (fault := fault_of_question(asked, tenant, address, now_ms)) is not None:
                raise Conflict(fault)
            email_id, salt = credentials.new_id("e"), credentials.new_salt()
            checked = credentials.sha256(secret_of(credentials.webhook_key(self._secret, email_id, salt)))
            row = Webhook(
                *(email_id, tenant, "", address, salt, checked, now_ms, caller.actor[:160]), kind=Kind.EMAIL
            )
            webhooks.add(connection, row)
            mail_questions.add(connection, email_id, Asked(tenant, key, now_ms))
            enqueue(connection, row, [said(CONFIRM, {"email": email_id}, now_ms)], now_ms)
            _audit(connection, row, "email.add", caller.actor, caller.address)
        return Email(row, AddressState.ASKED, None)

    def remove(self, caller: Caller, email_id: str) -> None:
        """With its queue and log. Raises: NotFound."""
        with self._store.write() as connection:
            found = existing(connection, caller, email_id, Kind.EMAIL)
            webhooks.remove(connection, found.id)
            _audit(connection, found, "email.remove", caller.actor, caller.address)

    def switch(self, caller: Caller, email_id: str, *, enabled: bool) -> Email:
        """Have it told, or of nothing: what happens meanwhile it never learns. Raises: NotFound, Conflict."""
        with self._store.write() as connection:
            found = existing(connection, caller, email_id, Kind.EMAIL)
            if found.confirmed_at_ms is None:
                raise Conflict(f"'{found.url}' is not confirmed: it is told of nothing anyway")
            if found.enabled != enabled:
                webhooks.switch(connection, found.id, enabled=enabled)
                action = f"email.{'enable' if enabled else 'disable'}"
                _audit(connection, found, action, caller.actor, caller.address)
            return _email(connection, replace(found, enabled=enabled))

    def test(self, caller: Caller, email_id: str) -> Delivery:
        """Send a mail that says it is a test. Raises: NotFound, Conflict while it is told of nothing."""
        with self._store.write() as connection:
            found = existing(connection, caller, email_id, Kind.EMAIL)
            if found.confirmed_at_ms is None:
                raise Conflict(f"'{found.url}' is not confirmed: it is mailed nothing but the question")
            if not found.enabled:
                raise Conflict(f"'{found.url}' is disabled: it is mailed nothing")
            now_ms = epoch_ms()
            [new] = enqueue(connection, found, [said(TEST, {"email": found.id}, now_ms)], now_ms)
            _audit(connection, found, "email.test", caller.actor, caller.address)
            return new

    def log(self, caller: Caller, email_id: str) -> list[Delivery]:
        """What was sent and how it went, newest first. Raises: NotFound."""
        with self._store.read() as connection:
            return webhooks.log(connection, existing(connection, caller, email_id, Kind.EMAIL).id)

    def handed_over(self, now_ms: int) -> list[Handed]:
        """What a server took within the hour before, whichever process gave it."""
        with self._store.read() as connection:
            found = webhooks.mails_sent(connection, now_ms - HOUR_MS)
        return [
            Handed(one.tenant, address_key(one.address), "" if one.tenant else _owner(one.body), one.at_ms)
            for one in found
        ]

    def follow(self, secret: str, browser: str) -> Followed:
        """Do what a mail's link is for; who has it reads the address's mail. Raises: NotFound, TooMany."""
        holder = holder_of(browser)
        wait_ms = self._limits.retry_after_ms(holder, _BY_MAIL)
        if wait_ms > 0:
            raise TooMany("too many wrong links from your address: wait a minute", wait_ms // 1000 + 1)
        try:
            with self._store.glance() as connection:  # anybody may send anything: no write for it
                purpose, found = self._meant(connection, secret)
        except NotFound:
            self._limits.failed(holder, _BY_MAIL)
            raise
        if purpose is Purpose.CONFIRM and found.confirmed_at_ms is not None:
            return Followed(found.url, found.tenant, purpose)
        now_ms = epoch_ms()
        with self._store.write() as connection:
            purpose, found = self._meant(connection, secret)
            state = state_of(found.confirmed_at_ms, found.created_at_ms, now_ms)
            if purpose is Purpose.CONFIRM and state is AddressState.UNANSWERED:
                raise NotFound(_GONE)
            if purpose is Purpose.CONFIRM and state is AddressState.ASKED:
                webhooks.confirm(connection, found.id, now_ms)
                _audit(connection, found, "email.confirm", _LINK, browser)
            elif purpose is Purpose.REMOVE:
                if state is not AddressState.CONFIRMED:
                    key = address_key(found.url)
                    mail_questions.refuse(connection, found.id, found.tenant, key, now_ms)
                webhooks.remove(connection, found.id)
                _audit(connection, found, "email.remove", _LINK, browser)
        return Followed(found.url, found.tenant, purpose)

    def _meant(self, connection: Connection, secret: str) -> tuple[Purpose, Webhook]:
        """What a link is for. Raises: NotFound, whatever is wrong with it."""
        parts = link_parts(secret)
        if parts is None or self._secret is None:
            raise NotFound(_GONE)
        purpose, email_id = parts
        found = webhooks.by_id(connection, email_id, Kind.EMAIL)
        if found is None:
            raise NotFound(_GONE)
        key = credentials.webhook_key(self._secret, found.id, found.salt)
        if not credentials.same(link_secret(key, purpose, found.id), secret):
            raise NotFound(_GONE)
        return purpose, found


def _owner(body: str) -> str:
    return str(json.loads(body)["data"].get("tenant") or "")


def _email(connection: Connection, row: Webhook) -> Email:
    tried = webhooks.last_tried(connection, row.id)
    trouble = tried if tried is not None and tried.error else None
    return Email(row, state_of(row.confirmed_at_ms, row.created_at_ms, epoch_ms()), trouble)


def _audit(connection: Connection, email: Webhook, action: str, actor: str, browser: str | None) -> None:
    entry = audit.Entry(actor, email.tenant or None, action, email.id, email.url, browser)
    audit.record(connection, entry, epoch_ms())
