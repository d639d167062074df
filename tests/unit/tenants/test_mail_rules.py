"""E-mail: which addresses, how often somebody is asked, how much goes where, and what a mail says."""

from dataclasses import replace

import pytest

from tenants.rules.mail_addresses import address_key, fault_of_address
from tenants.rules.mail_settings import MailSettings, parse_smtp_url, settings_fault
from tenants.rules.mails import (
    CONFIRM,
    CONFIRMATIONS_MAX,
    CONFIRMATIONS_MAX_PER_ADDRESS,
    CONFIRMATIONS_MAX_PER_PAIR,
    CONFIRMATIONS_MAX_PER_TENANT,
    DAY_MS,
    HOUR_MS,
    LINK_MS,
    MAILS_MAX,
    MAILS_MAX_PER_ADDRESS,
    MAILS_MAX_PER_TENANT,
    MAILS_SHARE_MAX,
    OPERATORS_MAILS_MAX_PER_ADDRESS,
    REFUSED_MS,
    AddressState,
    Asked,
    Handed,
    Purpose,
    To,
    fault_of_budget,
    fault_of_question,
    link_parts,
    link_secret,
    mail_of,
    state_of,
)

SETTINGS = MailSettings(
    host="mail", port=25, is_tls=False, sender="portico@example.com", console_url="https://console.example/"
)
TO = To("e1", "ops@example.com", "acme", b"key")
NOW_MS = 10 * REFUSED_MS


@pytest.mark.parametrize(
    "address",
    ["ops@example.com", "a.b+c@x-y.example.co", "o'neil@example.com", f"{'a' * 64}@{'b' * 63}.example"],
)
def test_addresses_of_mailboxes_are_taken(address: str) -> None:
    assert fault_of_address(address) is None


@pytest.mark.parametrize(
    "address",
    [
        *("", "ops", "@example.com", "ops@", "ops@localhost", "ops@127.0.0.1", "ops@[127.0.0.1]"),
        *(
            "ops@example.com\r\nBcc: all@example.com",
            "ops@example.com\n",
            "a,b@example.com",
            "a b@example.com",
        ),
        *(
            "<ops@example.com>",
            '"a\r\nb"@example.com',
            ".a@example.com",
            "a..b@example.com",
            "a@b@example.com",
        ),
        *("ops@-a.example", "ops@exämple.com", f"{'a' * 65}@example.com", f"a@{'b.' * 130}example"),
    ],
)
def test_what_is_no_address_or_hides_a_header_is_refused(address: str) -> None:
    assert fault_of_address(address) is not None


def test_a_mailbox_is_one_whatever_stands_behind_its_plus() -> None:
    assert address_key("Ops+1@Example.com") == address_key("ops+2@example.com") == "ops@example.com"


def test_nobody_is_asked_more_often_than_bounds_say() -> None:
    def fault(asked: list[Asked], tenant: str = "acme", address: str = "ops@example.com") -> str:
        return fault_of_question(asked, tenant, address, NOW_MS) or ""

    its = [Asked("other", "ops@example.com", NOW_MS - HOUR_MS)] * CONFIRMATIONS_MAX_PER_ADDRESS
    assert fault(its[1:]) == "" and "was asked" in fault(its[:CONFIRMATIONS_MAX_PER_PAIR], tenant="other")
    assert "was asked" in fault(its) and "was asked" in fault(its, address="OPS+x@example.com")
    assert fault([one._replace(at_ms=NOW_MS - DAY_MS) for one in its]) == ""
    of_tenant = [Asked("acme", f"{n}@example.com", NOW_MS - 1) for n in range(CONFIRMATIONS_MAX_PER_TENANT)]
    assert "addresses were asked" in fault(of_tenant) and fault(of_tenant, tenant="calm") == ""
    of_all = [Asked(f"t{n}", f"{n}@example.com", NOW_MS - 1) for n in range(CONFIRMATIONS_MAX)]
    assert "in an hour" in fault(of_all)
    assert fault([one._replace(at_ms=NOW_MS - HOUR_MS) for one in of_all]) == ""


def test_who_wants_nothing_of_a_tenant_is_left_alone_by_it() -> None:
    refused = [Asked("acme", "ops@example.com", NOW_MS - REFUSED_MS + 1, refused=True)]
    assert "wants nothing" in (fault_of_question(refused, "acme", "ops+a@example.com", NOW_MS) or "")
    assert fault_of_question(refused, "other", "ops@example.com", NOW_MS) is None
    assert fault_of_question(refused, "acme", "ops@example.com", NOW_MS + 1) is None


def handed(tenant: str, number: int = 0, owner: str = "", at_ms: int = NOW_MS) -> Handed:
    return Handed(tenant, f"{number}@example.com", owner, at_ms)


def full(before: list[Handed], new: Handed) -> str:
    fault = fault_of_budget(before, new)
    return "" if fault is None else fault.says


def test_an_hour_has_so_many_mails_for_an_address_and_a_tenant() -> None:
    its = [handed("acme")] * MAILS_MAX_PER_ADDRESS
    assert full(its[1:], handed("acme")) == ""
    assert "20 mails went to this address" in full(its, handed("acme"))
    assert full(its, handed("other")) == "", "what one tenant has mailed takes nothing of another's"
    tenants = [handed("acme", number % 10) for number in range(MAILS_MAX_PER_TENANT)]
    assert "60 mails were sent within an hour" in full(tenants, handed("acme", 11))
    assert full(tenants, handed("other", 11)) == ""
    everybodys = [handed(f"t{number}", number) for number in range(MAILS_MAX)]
    assert "1,000 mails were sent by this deployment" in full(everybodys, handed("acme"))
    assert full(everybodys, handed("")) == "", "operators are told all the same"


def test_a_tenant_has_a_share_of_what_operators_are_mailed() -> None:
    about = [handed("", owner="loud")] * MAILS_SHARE_MAX
    assert "this tenant's alarms" in full(about, handed("", owner="loud"))
    assert full(about, handed("", owner="calm")) == full(about, handed("")) == ""
    own = [handed("")] * (OPERATORS_MAILS_MAX_PER_ADDRESS - 1)
    assert full(own, handed("")) == "" and "120 mails" in full([*own, handed("", owner="calm")], handed(""))


def test_what_is_too_much_waits_until_there_is_room() -> None:
    before = [handed("acme", at_ms=NOW_MS - number) for number in range(MAILS_MAX_PER_ADDRESS + 1)]
    fault = fault_of_budget(before, handed("acme"))
    assert fault is not None and fault.until_ms == NOW_MS - MAILS_MAX_PER_ADDRESS + 1 + HOUR_MS
    at_ms = fault.until_ms
    assert fault_of_budget(before, handed("acme", at_ms=at_ms)) is None
    assert fault_of_budget(before, handed("acme", at_ms=at_ms - 1)) is not None


def test_an_address_is_asked_then_confirmed_or_unanswered() -> None:
    assert state_of(None, 5, 5 + LINK_MS - 1) is AddressState.ASKED
    assert state_of(None, 5, 5 + LINK_MS) is AddressState.UNANSWERED
    assert state_of(6, 5, 5 + LINK_MS) is AddressState.CONFIRMED


def test_links_are_of_one_address_and_one_purpose() -> None:
    made = link_secret(b"key", Purpose.CONFIRM, "e1")
    assert link_parts(made) == (Purpose.CONFIRM, "e1")
    others = {link_secret(b"key", Purpose.REMOVE, "e1"), link_secret(b"key", Purpose.CONFIRM, "e2")}
    macs = {one.rpartition(".")[2] for one in {made, link_secret(b"yek", Purpose.CONFIRM, "e1"), *others}}
    assert len(macs) == 4
    for wrong in ("", "x.e1.abc", "confirm", "confirm..abc", "confirm.e%.abc", "confirm.e1.ä", "confirm.é.a"):
        assert link_parts(wrong) is None, wrong


def test_what_asks_says_who_and_nothing_that_somebody_chose() -> None:
    mail = mail_of(CONFIRM, {"email": "e1", "says": "Buy!"}, TO, SETTINGS)
    assert f"https://console.example/#/mail/{link_secret(b'key', Purpose.CONFIRM, 'e1')}" in mail.text
    assert mail.unsubscribe_url in mail.text and "tenant acme" in mail.text
    assert "Buy!" not in mail.text + mail.subject


def test_an_alarm_is_mailed_with_what_helps_and_on_lines_of_ours() -> None:
    data = {
        "title": "the group falls behind",
        "says": "group 'a\r\nBcc: x@example.com' is late",
        "subject": "a\nb",
        "instance_id": "abc",
        "instance_name": "shop",
        "tenant": "acme",
        "severity": "warning",
        "remedy": "Add consumers.",
        "raised_at": "2026-11-27T10:00:00.000Z",
    }
    mail = mail_of("alarm.raised", data, TO, SETTINGS)
    assert mail.subject == "[Portico] raised: the group falls behind (shop)"
    assert "\nBcc" not in mail.text and "\r" not in mail.text
    assert "What helps: Add consumers." in mail.text
    assert "https://console.example/#/instances/abc/alarms" in mail.text
    assert link_secret(b"key", Purpose.REMOVE, "e1") in mail.text
    ours = mail_of("alarm.cleared", {**data, "instance_name": None}, TO._replace(tenant=""), SETTINGS)
    assert "https://console.example/#/alarms\n" in ours.text and "all tenants" in ours.text


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("smtp://mail", ("mail", 25, False, "")),
        ("smtps://ops%40example.com@mail.example.com", ("mail.example.com", 465, True, "ops@example.com")),
        ("smtp://ops@127.0.0.1:2525/", ("127.0.0.1", 2525, False, "ops")),
    ],
)
def test_servers_are_named_by_urls(url: str, parsed: tuple[str, int, bool, str]) -> None:
    assert parse_smtp_url(url) == parsed


@pytest.mark.parametrize(
    "url",
    [
        "mail",
        "http://mail",
        "smtp://",
        "smtp://mail:x",
        "smtp://mail/x",
        "smtp://mail?tls=none",
        "smtp://a\nb",
    ],
)
def test_what_names_no_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must be smtp"):
        parse_smtp_url(url)


def test_a_password_in_the_url_is_refused_and_not_told() -> None:
    with pytest.raises(ValueError, match="belongs into a file") as refused:
        parse_smtp_url("smtp://ops:hunter2@mail")
    assert "hunter2" not in str(refused.value)


def test_a_login_goes_through_tls_or_stays_on_this_machine() -> None:
    def settings(
        host: str, user: str = "ops", *, is_tls: bool = False, password: str | None = "x"
    ) -> MailSettings:
        more = {"sender": "a@example.com", "console_url": "https://console.example"}
        return MailSettings(host=host, port=1, is_tls=is_tls, user=user, password=password, **more)

    assert settings("mail").needs_starttls
    assert not settings("127.0.0.1").needs_starttls and not settings("mail", "").needs_starttls
    assert not settings("mail", is_tls=True).needs_starttls
    assert settings_fault(settings("mail")) is None
    assert "password" in (settings_fault(settings("mail", password=None)) or "")
    assert "sender" in (settings_fault(replace(SETTINGS, sender="a\nb")) or "")
