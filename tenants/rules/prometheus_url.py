"""Where a Prometheus is, as an operator says it. Pure."""

from base64 import b64encode
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

_URL_CHARS_MAX: Final = 1_024
_FAULT: Final = "the URL of a Prometheus is http(s)://[USER:PASSWORD@]HOST[:PORT][/PATH]"


@dataclass(frozen=True, slots=True)
class PrometheusUrl:
    """`http(s)://[USER:PASSWORD@]HOST[:PORT][/PATH]`, below it `/api/v1`. Shown without its password."""

    text: str

    def __str__(self) -> str:
        """For people."""
        password = urlsplit(self.text).password
        return self.text if password is None else self.text.replace(f":{password}@", ":***@", 1)

    __repr__ = __str__

    @property
    def range_url(self) -> str:
        """Where ranges are asked for; nobody's name in it."""
        parts = urlsplit(self.text)
        place = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, place, parts.path.rstrip("/") + "/api/v1/query_range", "", ""))

    @property
    def authorization(self) -> str | None:
        """The header that proves who asks; None: nobody in particular does."""
        parts = urlsplit(self.text)
        if parts.username is None:
            return None
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return "Basic " + b64encode(pair.encode()).decode()


def parse_prometheus_url(text: str) -> PrometheusUrl:
    """Raises: ValueError with a sentence, which does not repeat what may hold a password."""
    if len(text) > _URL_CHARS_MAX or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(_FAULT)
    try:
        parts = urlsplit(text)
        port = parts.port  # raises for what is not a port
    except ValueError:
        raise ValueError(_FAULT) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(_FAULT)
    if parts.query or parts.fragment or (parts.username is None and "@" in parts.netloc):
        raise ValueError(_FAULT)
    return PrometheusUrl(text)
