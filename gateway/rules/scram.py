"""The server's side of SCRAM (RFC 5802, RFC 7677) as messages in, messages out: no clock, no randomness.

Channel binding is not offered, so a client must not ask for it (`p=`). One that could bind (`y`) says the
same in both of its messages, or somebody in between has changed what we offered.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable
from typing import Final

from contracts.users import Mechanism, ScramCredential, hash_of

_GS2: Final = re.compile(r"([ny]),(?:a=([^,]+))?,")
_FIRST: Final = re.compile(r"n=([^,]+),r=([\x21-\x2b\x2d-\x7e]{1,256})((?:,[A-Za-ln-z]=[^,]*)*)\Z")
"""A mandatory extension (`m=`) is one that we do not know."""
_FINAL: Final = re.compile(r"(c=([^,]*),r=([^,]*)(?:,[A-Za-ln-z]=[^,]*)*?),p=([^,]*)\Z")
_ESCAPES: Final = {"=2C": ",", "=3D": "="}


class ScramFault(Exception):  # noqa: N818 - the client's doing
    """The exchange has failed; the text is for our log."""


def saslname(escaped: str) -> str:
    """The name that a client means. Raises: ScramFault."""
    if re.search(r"=(?!2C|3D)", escaped):
        raise ScramFault("a name with a bare '='")
    return re.sub(r"=2C|=3D", lambda found: _ESCAPES[found[0]], escaped)


class ScramServer:
    """One exchange: `first`, then `final`."""

    def __init__(
        self, mechanism: Mechanism, server_nonce: str, credential_of: Callable[[str], ScramCredential]
    ) -> None:
        """`credential_of` has an answer for every name: for one that is not there, what nothing matches."""
        self._mechanism = mechanism
        self._server_nonce = server_nonce
        self._credential_of = credential_of
        self.user = ""
        """Whom the client has named."""
        self.credential: ScramCredential | None = None
        """What it is checked by."""
        self._gs2 = ""
        self._nonce = ""
        self._said = ""

    def first(self, message: bytes) -> bytes:
        """The client's first message; the answer is ours. Raises: ScramFault."""
        text = _text(message)
        head = _GS2.match(text)
        if head is None:
            raise ScramFault("channel binding, or no SCRAM message")
        bare = text[head.end() :]
        body = _FIRST.match(bare)
        if body is None:
            raise ScramFault("no first message of a client")
        self.user = saslname(body[1])
        if head[2] is not None and saslname(head[2]) != self.user:
            raise ScramFault("nobody may act for another user")
        self._gs2 = head[0]
        self._nonce = body[2] + self._server_nonce
        self.credential = found = self._credential_of(self.user)
        salt = base64.b64encode(found.salt).decode()
        answer = f"r={self._nonce},s={salt},i={found.iterations}"
        self._said = f"{bare},{answer}"
        return answer.encode()

    def final(self, message: bytes) -> bytes:
        """The client's final message; the answer is ours, which proves that we know the user. Raises:
        ScramFault, also when the password was wrong."""
        assert self.credential is not None, "the first message comes first"
        body = _FINAL.match(_text(message))
        if body is None:
            raise ScramFault("no final message of a client")
        without_proof, binding, nonce, proof_text = body.groups()
        if _decoded(binding) != self._gs2.encode():
            raise ScramFault("another channel binding than before")
        if not hmac.compare_digest(nonce.encode(), self._nonce.encode()):
            raise ScramFault("a nonce of another exchange")
        hash_name = self._mechanism.hash_name
        said = f"{self._said},{without_proof}".encode()
        signature = hmac.digest(self.credential.stored_key, said, hash_name)
        proof = _decoded(proof_text)
        if len(proof) != len(signature):
            raise ScramFault("a proof of another length")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hash_of(self._mechanism, client_key), self.credential.stored_key):
            raise ScramFault("wrong password")
        return b"v=" + base64.b64encode(hmac.digest(self.credential.server_key, said, hash_name))


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise ScramFault("not UTF-8") from error


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ScramFault("not base64") from error
