"""What operators say of the server that takes e-mail. Pure."""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from tenants.rules.mail_addresses import fault_of_address
from tenants.rules.oidc_settings import is_loopback, url_fault

_URL_CHARS_MAX: Final = 1_024
_PORTS: Final = {"smtp": 25, "smtps": 465}


@dataclass(frozen=True, slots=True, kw_only=True)
class MailSettings:
    """Where mails go and whom they are from, as the operator said."""

    host: str
    port: int
    is_tls: bool
    """Whether TLS begins the connection; else STARTTLS does where the server offers it."""
    user: str = ""
    """Empty: no login."""
    password: str | None = field(default=None, repr=False)
    sender: str
    """The address mails are from."""
    console_url: str
    """Where browsers find the console: links of mails lead there."""

    @property
    def needs_starttls(self) -> bool:
        """A login is not told in the clear over a network that others read."""
        return not self.is_tls and bool(self.user) and not is_loopback(self.host)


def parse_smtp_url(text: str) -> tuple[str, int, bool, str]:
    """(host, port, whether TLS begins the connection, user) of `smtp(s)://[USER@]HOST[:PORT]`.

    Raises: ValueError with a sentence, which tells nothing of a password.
    """
    fault = "must be smtp://[USER@]HOST[:PORT], or smtps:// where TLS begins the connection"
    if len(text) > _URL_CHARS_MAX or not text.isascii() or not text.isprintable():
        raise ValueError(fault)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(fault) from error
    if parts.password is not None:
        raise ValueError("has a password in it, which belongs into a file: --smtp-password-file")
    if parts.scheme not in _PORTS or not parts.hostname or port == 0 or parts.path.strip("/") or parts.query:
        raise ValueError(fault)
    user = unquote(parts.username or "")
    if not user.isprintable():
        raise ValueError(fault)
    return parts.hostname, port or _PORTS[parts.scheme], parts.scheme == "smtps", user


def settings_fault(settings: MailSettings) -> str | None:
    """What is wrong with what the operator said, in a sentence."""
    if (fault := fault_of_address(settings.sender)) is not None:
        return f"the sender {fault}"
    if (fault := url_fault(settings.console_url)) is not None:
        return f"the console URL {fault}"
    if bool(settings.user) != bool(settings.password):
        return "a user needs a password file, and a password file a user in the URL"
    return None
