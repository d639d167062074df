"""E-mail for alarms: which addresses, how much goes where, links, and what a mail says. Pure.

An address is mailed nothing but the question whether it wants to be, until somebody who reads it says yes;
what asks has no text of a tenant's in it, so that nobody can have strangers mailed what he likes.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from tenants.rules.mail_addresses import address_key
from tenants.rules.mail_settings import MailSettings

ADDRESSES_MAX: Final = 10
"""E-mail addresses of one tenant, confirmed or not."""
CONFIRMATIONS_MAX_PER_ADDRESS: Final = 4
"""Mails in a day that ask one address whether it wants alarms, whoever adds it; `a+b@` counts as `a@`."""
CONFIRMATIONS_MAX_PER_PAIR: Final = 2
"""Those that one tenant has asked: another's attempts leave some to the address's own."""
CONFIRMATIONS_MAX_PER_TENANT: Final = 10
"""Mails in a day that one tenant has ask addresses whether they want alarms."""
CONFIRMATIONS_MAX: Final = 60
"""Mails in an hour that ask addresses whether they want alarms, over all tenants."""
MAILS_MAX_PER_ADDRESS: Final = 20
"""Mails of one tenant to one address in an hour; what is beyond waits until there is room."""
MAILS_MAX_PER_TENANT: Final = 60
"""Mails of one tenant in an hour."""
MAILS_MAX: Final = 1_000
"""Mails of all tenants in an hour; what operators are mailed comes on top."""
OPERATORS_MAILS_MAX_PER_ADDRESS: Final = 120
"""Mails to one of the operators' addresses in an hour: it is told of everybody's alarms."""
MAILS_SHARE_MAX: Final = 10
"""Of those, mails about one tenant's alarms: one that makes many leaves room for the others'."""
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
LINK_MS: Final = DAY_MS
"""How long the link in a question is good."""
REFUSED_MS: Final = 90 * DAY_MS
"""How long an address that wants nothing of a tenant is not asked again for it."""
SUBJECT_CHARACTERS_MAX: Final = 150
_LINE_CHARACTERS_MAX: Final = 900
CONFIRM: Final = "mail.confirm"
TEST: Final = "mail.test"


class Purpose(StrEnum):
    """What a link does."""

    CONFIRM = "confirm"
    REMOVE = "remove"


class AddressState(StrEnum):
    """Whether an address is mailed alarms."""

    ASKED = "asked"
    CONFIRMED = "confirmed"
    UNANSWERED = "unanswered"


def state_of(confirmed_at_ms: int | None, created_at_ms: int, now_ms: int) -> AddressState:
    """How far an address is."""
    if confirmed_at_ms is not None:
        return AddressState.CONFIRMED
    return AddressState.ASKED if now_ms < created_at_ms + LINK_MS else AddressState.UNANSWERED


class Asked(NamedTuple):
    """A question that was sent to an address."""

    tenant: str
    address_key: str
    at_ms: int
    refused: bool = False
    """Whether the answer was that nothing is wanted."""


def fault_of_question(asked: Sequence[Asked], tenant: str, address: str, now_ms: int) -> str | None:
    """Why an address is not asked now; None: it is.

    `asked`: at least what was asked within a day, and what this address has refused.
    """
    key = address_key(address)
    if any(
        one.refused and one.tenant == tenant and one.address_key == key and now_ms < one.at_ms + REFUSED_MS
        for one in asked
    ):
        return "somebody who reads this address said that it wants nothing of yours; it is not asked again"
    of_day = [one for one in asked if now_ms < one.at_ms + DAY_MS]
    its = [one for one in of_day if one.address_key == key]
    if len(its) >= CONFIRMATIONS_MAX_PER_ADDRESS or (
        sum(one.tenant == tenant for one in its) >= CONFIRMATIONS_MAX_PER_PAIR
    ):  # one sentence: whether others want it told is nobody's business
        return "this address was asked as often as it may be within a day: wait for tomorrow"
    if sum(one.tenant == tenant for one in of_day) >= CONFIRMATIONS_MAX_PER_TENANT:
        return f"{CONFIRMATIONS_MAX_PER_TENANT} addresses were asked within a day: wait for tomorrow"
    if sum(now_ms < one.at_ms + HOUR_MS for one in of_day) >= CONFIRMATIONS_MAX:
        return "too many addresses are asked in this deployment now: try again in an hour"
    return None


class Handed(NamedTuple):
    """A mail that the server took."""

    tenant: str
    """Whose address it went to; empty: operators'."""
    address_key: str
    owner: str
    """The tenant whose alarm it was about; empty: about none."""
    at_ms: int


class Full(NamedTuple):
    """Why a mail waits although it is due."""

    says: str
    until_ms: int


def fault_of_budget(handed: Sequence[Handed], new: Handed) -> Full | None:
    """Why one more mail is not handed over at its time; None: it is. `handed`: at least the hour's."""
    of_hour = [one for one in handed if new.at_ms < one.at_ms + HOUR_MS]
    its = [one for one in of_hour if (one.tenant, one.address_key) == (new.tenant, new.address_key)]
    bounds: list[tuple[int, list[Handed], str]]
    if new.tenant:
        bounds = [
            (MAILS_MAX_PER_ADDRESS, its, "mails went to this address"),
            (MAILS_MAX_PER_TENANT, [one for one in of_hour if one.tenant == new.tenant], "mails were sent"),
            (MAILS_MAX, [one for one in of_hour if one.tenant], "mails were sent by this deployment"),
        ]
    else:
        about = [one for one in its if one.owner and one.owner == new.owner]
        bounds = [
            (OPERATORS_MAILS_MAX_PER_ADDRESS, its, "mails went to this address"),
            (MAILS_SHARE_MAX, about, "mails about this tenant's alarms went to this address"),
        ]
    for most, counted, what in bounds:
        if len(counted) >= most:
            until_ms = sorted(one.at_ms for one in counted)[-most] + HOUR_MS
            return Full(f"{most:,} {what} within an hour, which is as many as may be", until_ms)
    return None


# --- links ------------------------------------------------------------------------------------------


def link_secret(key: bytes, purpose: Purpose, email_id: str) -> str:
    """What stands in a link, of 256 bits. `key` follows from the deployment's secret, and no store has it."""
    said = hmac.new(key, f"portico/mail/1/{purpose}/{email_id}".encode(), hashlib.sha256).digest()
    return f"{purpose}.{email_id}.{base64.urlsafe_b64encode(said).decode().rstrip('=')}"


def link_parts(secret: str) -> tuple[Purpose, str] | None:
    """What a link claims to be for; None: it is none."""
    purpose, _, rest = secret.partition(".")
    email_id, _, said = rest.partition(".")
    if purpose not in list(Purpose) or not email_id.isalnum() or not email_id.isascii() or not said.isascii():
        return None
    return Purpose(purpose), email_id


# --- what is said -----------------------------------------------------------------------------------


class Mail(NamedTuple):
    """What goes to an address, as text; whoever sends it makes headers of it that cannot be broken out of."""

    subject: str
    text: str
    unsubscribe_url: str


class To(NamedTuple):
    """Whom a mail is for."""

    id: str
    address: str
    tenant: str
    """Empty: operators."""
    key: bytes


def mail_of(event: str, data: Mapping[str, object], to: To, settings: MailSettings) -> Mail:
    """A message of the queue as a mail. `data`: its body's, as `tenants.usecases.webhooks` made it."""
    remove = _link(settings, link_secret(to.key, Purpose.REMOVE, to.id))
    whose = f"tenant {to.tenant}" if to.tenant else "all tenants, and of the deployment itself"
    if event == CONFIRM:
        confirm = _link(settings, link_secret(to.key, Purpose.CONFIRM, to.id))
        lines = [
            f"Somebody wants alarms of {whose}, to be mailed to {to.address}.",
            *("If that is right, open this link within a day:", "", f"  {confirm}", ""),
            "If not, do nothing: there are no further mails. So that it is not asked again, open this:",
            *("", f"  {remove}", "", f"Portico at {settings.console_url}"),
        ]
        return Mail("[Portico] May alarms be mailed to you?", _text(lines), remove)
    end = ["", "-- ", f"{to.address} was confirmed for alarms of {whose}. To end that: {remove}"]
    if event == TEST:
        return Mail("[Portico] Test", _text(["This is a test: mails arrive here.", *end]), remove)
    state = event.partition(".")[2]
    instance = _word(data.get("instance_name"))
    subject = f"[Portico] {state}: {_word(data.get('title'))}{f' ({instance})' if instance else ''}"
    place = f"#/instances/{_word(data.get('instance_id'))}/alarms" if instance else "#/alarms"
    facts = [
        ("alarm", data.get("title")),
        ("severity", data.get("severity")),
        ("subject", data.get("subject")),
        ("instance", instance),
        ("tenant", data.get("tenant")),
        ("since", data.get("raised_at")),
    ]
    lines = [
        f"{state.capitalize()}: {_word(data.get('says'))}",
        "",
        *(f"{name}: {_word(value)}" for name, value in facts if value),
        *("", f"What helps: {_word(data.get('remedy'))}"),
        *("", f"{settings.console_url.rstrip('/')}/{place}"),
    ]
    return Mail(subject[:SUBJECT_CHARACTERS_MAX], _text([*lines, *end]), remove)


def _link(settings: MailSettings, secret: str) -> str:
    return f"{settings.console_url.rstrip('/')}/#/mail/{secret}"


def _word(value: object) -> str:
    """On one line, whatever clients called their groups."""
    text = "" if value is None else str(value)
    return "".join(one if one.isprintable() else " " for one in text)[:_LINE_CHARACTERS_MAX]


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
