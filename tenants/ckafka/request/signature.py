"""Signature method v3 (TC3-HMAC-SHA256) of Tencent Cloud's API 3.0. Pure.

Source: the method's public description, and what its SDKs sign: `content-type;host`, path `/`.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

ALGORITHM: Final = "TC3-HMAC-SHA256"
UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
"""What stands for the body in a signature when header X-TC-Content-SHA256 says so."""
MUST_SIGN: Final = ("content-type", "host")
SKEW_MAX_S: Final = 300
"""Between a request's time and ours, in either direction."""
_TERMINATOR: Final = "tc3_request"
_AUTHORIZATION: Final = re.compile(
    r"TC3-HMAC-SHA256 +Credential=([A-Za-z0-9]{1,64})/([0-9]{4}-[0-9]{2}-[0-9]{2})/([a-z0-9-]{1,32})/"
    r"tc3_request, *SignedHeaders=([a-z0-9-]+(?:;[a-z0-9-]+){0,31}), *Signature=([0-9a-f]{64})\Z"
)


class Authorization(NamedTuple):
    """The parts of an Authorization header."""

    secret_id: str
    date: str
    service: str
    signed_headers: tuple[str, ...]
    signature: str


def parse_authorization(text: str) -> Authorization | None:
    """The parts; None when the header is not one of this method."""
    found = _AUTHORIZATION.match(text.strip())
    if found is None:
        return None
    secret_id, date, service, signed, signature = found.groups()
    return Authorization(secret_id, date, service, tuple(signed.split(";")), signature)


def date_of(timestamp_s: int) -> str:
    """The date of a credential scope. Raises: ValueError for a time that no calendar has."""
    try:
        return datetime.fromtimestamp(timestamp_s, UTC).strftime("%Y-%m-%d")
    except (OverflowError, OSError) as error:
        raise ValueError("no calendar has this time") from error


class Signable(NamedTuple):
    """What is signed of a request. Names of headers are in lower case, values without space around them."""

    method: str
    query: str
    headers: Mapping[str, str]
    payload_sha256: str
    timestamp_s: int


def is_signed_by(request: Signable, said: Authorization, secret_key: str) -> bool:
    """Whether the signature was made with a secret key.

    The description has header values in lower case, SDKs sign them as they are sent: either is taken.
    """
    found = False
    for lower in (False, True):
        expected = signature(request, said.service, said.signed_headers, secret_key, lower=lower)
        found |= hmac.compare_digest(expected, said.signature)
    return found


def signature(
    request: Signable, service: str, signed_headers: Sequence[str], secret_key: str, *, lower: bool = False
) -> str:
    """The signature in hexadecimal. Raises: KeyError for a signed header that the request does not have."""
    values = ((name, request.headers[name]) for name in signed_headers)
    lines = "".join(f"{name}:{value.lower() if lower else value}\n" for name, value in values)
    names = ";".join(signed_headers)
    canonical = f"{request.method}\n/\n{request.query}\n{lines}\n{names}\n{request.payload_sha256}"
    date = date_of(request.timestamp_s)
    scope = f"{date}/{service}/{_TERMINATOR}"
    text = f"{ALGORITHM}\n{request.timestamp_s}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"TC3{secret_key}".encode()
    for part in (date, service, _TERMINATOR):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()
