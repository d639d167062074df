"""One attempt to hand a mail to the operators' SMTP server."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from functools import partial
from json import loads
from typing import Final

import aiosmtplib

from runtime.clock import epoch_ms
from runtime.logs import get_logger
from tenants.rules.mail_addresses import address_key
from tenants.rules.mail_settings import MailSettings
from tenants.rules.mails import CONFIRM, Handed, Mail, To, fault_of_budget, mail_of
from tenants.rules.webhooks import GIVEN_UP_MS
from tenants.usecases.webhooks import Due, Outcome

_log = get_logger(__name__)
ATTEMPT_S_MAX: Final = 30.0
"""One attempt to hand over a mail, from looking up the server's name to its last answer."""
REPLY_CHARACTERS_MAX: Final = 200
"""Of a server's reply, as a tenant is told it."""


class MailSink:
    """Sends to confirmed addresses, and to others the question whether they are."""

    def __init__(self, settings: MailSettings, handed: Callable[[int], Sequence[Handed]]) -> None:
        """`handed`: what was handed over within the hour before a time, by whichever process. It blocks."""
        self._settings = settings
        self._handed = handed
        # Of its own: a resolver that hangs takes no thread of those that read the store.
        self._lookups = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mail-server")

    async def send(self, due: Due) -> Outcome:
        """One attempt; never raises for what a server does. Raises: StoreFault."""
        email, delivery = due.webhook, due.delivery
        assert due.key is not None, "the runner sends nothing without it"
        if email.confirmed_at_ms is None and delivery.event != CONFIRM:
            return Outcome(None, "the address is not confirmed", is_final=True)
        if email.confirmed_at_ms is not None and delivery.event == CONFIRM:
            return Outcome(None, "")  # somebody has opened its link: it arrived
        data, now_ms = loads(delivery.body)["data"], epoch_ms()
        new = Handed(email.tenant, address_key(email.url), str(data.get("tenant") or ""), now_ms)
        full = fault_of_budget(await asyncio.to_thread(self._handed, now_ms), new)
        if full is not None:
            if full.until_ms >= delivery.created_at_ms + GIVEN_UP_MS:
                return Outcome(None, f"not sent: {full.says}", is_final=True)
            return Outcome(None, f"not sent yet: {full.says}", again_ms=full.until_ms)
        to = To(email.id, email.url, email.tenant, due.key)
        mail = mail_of(delivery.event, data, to, self._settings)
        return await self._attempt(message_of(mail, email.url, delivery.id, self._settings))

    async def _attempt(self, message: EmailMessage) -> Outcome:
        told = self._settings
        client = aiosmtplib.SMTP(
            hostname=told.host,
            local_hostname=told.sender.rpartition("@")[2],
            use_tls=told.is_tls,
            start_tls=False if told.is_tls else True if told.needs_starttls else None,
            username=told.user or None,
            password=told.password,
            timeout=ATTEMPT_S_MAX,
        )
        try:
            async with asyncio.timeout(ATTEMPT_S_MAX):
                await client.connect(sock=await self._connected())
                await client.send_message(message)
        except TimeoutError:
            return Outcome(None, f"the mail server did not answer within {ATTEMPT_S_MAX:.0f} s")
        except (aiosmtplib.SMTPException, OSError) as error:
            _log.warning("a mail was not taken", server=told.host, error=repr(error)[:500])
            return refused(error)
        finally:
            client.close()  # whoever waits for QUIT's answer waits for a server that has the mail
        return Outcome(250, "")

    async def _connected(self) -> socket.socket:
        """At the first of the server's addresses that takes it. Raises: OSError."""
        told, loop = self._settings, asyncio.get_running_loop()
        find = partial(socket.getaddrinfo, told.host, told.port, type=socket.SOCK_STREAM)
        failure = OSError("no address")
        for family, kind, protocol, _, address in await loop.run_in_executor(self._lookups, find):
            made = socket.socket(family, kind, protocol)
            made.setblocking(False)
            try:
                await loop.sock_connect(made, address)
            except OSError as error:
                made.close()
                failure = error
            except BaseException:
                made.close()
                raise
            else:
                return made
        raise failure


def message_of(mail: Mail, address: str, delivery_id: str, settings: MailSettings) -> EmailMessage:
    """With its headers, where EmailMessage refuses line ends. Programs do not answer such a mail."""
    message = EmailMessage()
    message["Subject"] = mail.subject
    message["From"] = Address("Portico", addr_spec=settings.sender)
    message["To"] = Address(addr_spec=address)
    message["Date"] = format_datetime(datetime.fromtimestamp(epoch_ms() / 1000, UTC))
    # The same at each attempt: a server that took one and did not say so is told of no second mail.
    message["Message-ID"] = f"<{delivery_id}@{settings.sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message["List-Unsubscribe"] = f"<{mail.unsubscribe_url}>"
    message.set_content(mail.text)
    return message


def refused(error: Exception) -> Outcome:
    """What a failure means, and what a tenant is told of it: nothing of the operators' network.

    That an address is not there, or a mail not wanted, does not change by trying again. What concerns the
    operators' login or sender may be mended by them meanwhile.
    """
    if (of_tls := _of_tls(error.__cause__ or error)) is not None:
        return of_tls
    match error:
        case aiosmtplib.SMTPRecipientsRefused() if error.recipients:
            return _answered("refuses the address", error.recipients[0], is_about_mail=True)
        case aiosmtplib.SMTPDataError():
            return _answered("refuses the mail", error, is_about_mail=True)
        case aiosmtplib.SMTPAuthenticationError():
            return Outcome(error.code, "the mail server refuses the login that operators configured")
        case aiosmtplib.SMTPSenderRefused():
            return Outcome(error.code, "the mail server refuses the sender that operators configured")
        case aiosmtplib.SMTPConnectResponseError() | aiosmtplib.SMTPHeloError():
            return Outcome(error.code, "the mail server takes no mail now")
        case aiosmtplib.SMTPTimeoutError():
            return Outcome(None, f"the mail server did not answer within {ATTEMPT_S_MAX:.0f} s")
        case aiosmtplib.SMTPServerDisconnected():  # of OSError, too
            return Outcome(None, "the mail server hung up")
        case aiosmtplib.SMTPConnectError() | OSError():
            return Outcome(None, "the mail server cannot be reached")
        case aiosmtplib.SMTPResponseException():
            return Outcome(error.code, f"the mail server takes no mail now: it answered {error.code}")
        case _ if type(error) is aiosmtplib.SMTPException:  # as it has neither STARTTLS nor AUTH
            return Outcome(None, "the mail server offers no login, or no TLS, as operators configured")
        case _:
            return Outcome(None, f"the mail server cannot be used: {type(error).__name__}")


def _of_tls(error: BaseException) -> Outcome | None:
    """None: it has nothing to do with TLS."""
    match error:
        case ssl.SSLCertVerificationError():
            return Outcome(None, "the certificate of the mail server is not trusted here")
        case ssl.SSLError():
            return Outcome(None, "the mail server speaks no TLS that can be used here")
        case _:
            return None


def _answered(what: str, error: aiosmtplib.SMTPResponseException, *, is_about_mail: bool) -> Outcome:
    said = "".join(one if one.isprintable() else " " for one in error.message)[:REPLY_CHARACTERS_MAX]
    is_final = is_about_mail and 500 <= error.code < 600
    return Outcome(error.code, f"the mail server {what}: {error.code} {said}".rstrip(), is_final=is_final)
