"""The client's side of SCRAM (RFC 5802, RFC 7677) as messages in, messages out: no clock, no randomness."""

import base64
import binascii
import hmac
import re
from hashlib import new, pbkdf2_hmac
from typing import Final

ITERATIONS_MIN: Final = 4096
"""RFC 7677: fewer are an invitation to guess."""
ITERATIONS_MAX: Final = 16_384
"""Kafka's own bound. Each costs time in which nothing else is done."""
_FIRST: Final = re.compile(
    r"r=([\x21-\x2b\x2d-\x7e]{1,1024}),s=([A-Za-z0-9+/=]{4,1024}),i=([1-9]\d{0,8})(?:,.*)?\Z"
)
_FINAL: Final = re.compile(r"v=([A-Za-z0-9+/=]+)(?:,.*)?\Z")
_HEADER: Final = "n,,"

Salted = dict[tuple[str, str, str, bytes, int], bytes]
"""The last salted password, by what it is made of: a cluster asks with the same salt at every login."""


class ScramRefused(Exception):  # noqa: N818 - the peer's doing
    """The server makes no sense, or does not know the password; the text names which."""


class ScramClient:
    """One exchange: `first`, `final`, and `check` of what the server proves."""

    def __init__(self, hash_name: str, user: str, password: str, nonce: str, salted: Salted) -> None:
        """`nonce` is random and has no comma. `salted` keeps what took time to make."""
        self._hash_name = hash_name
        self._user, self._password, self._nonce = user, password, nonce
        self._salted = salted
        self._server_signature = b""

    @property
    def _bare(self) -> str:
        return f"n={self._user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"

    def first(self) -> bytes:
        """The client's first message."""
        return f"{_HEADER}{self._bare}".encode()

    def final(self, message: bytes) -> bytes:
        """The answer to the server's first message. Raises: ScramRefused."""
        said = _text(message)
        found = _FIRST.match(said)
        if found is None:
            raise ScramRefused("no first message of a SCRAM server")
        nonce, salt, iterations = found[1], _decoded(found[2]), int(found[3])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramRefused("a nonce of another exchange")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ScramRefused(f"{iterations} iterations, not {ITERATIONS_MIN} to {ITERATIONS_MAX}")
        salted = self._salt(salt, iterations)
        name = self._hash_name
        client_key = hmac.digest(salted, b"Client Key", name)
        without_proof = f"c={base64.b64encode(_HEADER.encode()).decode()},r={nonce}"
        exchange = f"{self._bare},{said},{without_proof}".encode()
        signature = hmac.digest(new(name, client_key).digest(), exchange, name)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", name), exchange, name)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _salt(self, salt: bytes, iterations: int) -> bytes:
        key = self._hash_name, self._user, self._password, salt, iterations
        if key not in self._salted:
            self._salted.clear()
            self._salted[key] = pbkdf2_hmac(self._hash_name, self._password.encode(), salt, iterations)
        return self._salted[key]

    def check(self, message: bytes) -> None:
        """The server's last message proves that it knows the user, too. Raises: ScramRefused."""
        found = _FINAL.match(_text(message))
        if found is None or not hmac.compare_digest(_decoded(found[1]), self._server_signature):
            raise ScramRefused("the server does not prove that it knows the password")


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise ScramRefused("not UTF-8") from error


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ScramRefused("not base64") from error
