"""Secrets: drawn, hashed, compared. Passwords as argon2id; tokens, being random, as SHA-256."""

import base64
import hashlib
import hmac
import secrets
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from contracts.users import SALT_BYTES, SCRAM_MECHANISMS, KafkaUser, credential

_HASHER: Final = PasswordHasher()
_NOBODY: Final = "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$" + "A" * 43
KEY_PREFIX: Final = "portico_"
ACCESS_KEY_PREFIX: Final = "AKID"
"""How the id of an access-key pair begins, as at Tencent Cloud."""
_ALPHANUMERIC: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ACCESS_KEY_LETTERS: Final = 32
_NONCE_BYTES: Final = 12


def new_password() -> str:
    """A password that a person can type: about 95 bits."""
    alphabet = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
    return "".join(secrets.choice(alphabet) for _ in range(16))


def new_key_secret() -> str:
    """The secret of an API key."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def new_access_key_id() -> str:
    """The id of an access-key pair, which is not a secret."""
    return ACCESS_KEY_PREFIX + "".join(secrets.choice(_ALPHANUMERIC) for _ in range(_ACCESS_KEY_LETTERS))


def new_salt() -> str:
    """256 random bits in hexadecimal."""
    return secrets.token_hex(32)


def access_secret_key(deployment_secret: str, secret_id: str, salt: str) -> str:
    """The secret key of a pair, 190 bits: known to who has the deployment's secret and the pair's salt both.

    A signature by HMAC is checked with the key itself, which a hash would not give back; so none is stored.
    """
    said = f"portico/access-key/1/{secret_id}/{salt}".encode()
    number = int.from_bytes(hmac.new(deployment_secret.encode(), said, hashlib.sha512).digest())
    letters = []
    for _ in range(_ACCESS_KEY_LETTERS):
        number, digit = divmod(number, len(_ALPHANUMERIC))
        letters.append(_ALPHANUMERIC[digit])
    return "".join(letters)


def webhook_key(deployment_secret: str, webhook_id: str, salt: str) -> bytes:
    """What signs a webhook's messages, 256 bits: none is stored, as with access keys."""
    said = f"portico/webhook/1/{webhook_id}/{salt}".encode()
    return hmac.new(deployment_secret.encode(), said, hashlib.sha256).digest()


def new_user(name: str, password: str, *, superuser: bool = False) -> KafkaUser:
    """A user of an instance with what its password is checked by. Takes some ms."""
    made = [credential(one, password, secrets.token_bytes(SALT_BYTES)) for one in SCRAM_MECHANISMS]
    return KafkaUser(name=name, credentials=tuple(made), superuser=superuser)


def new_session_token() -> str:
    """The cookie of a session."""
    return secrets.token_urlsafe(32)


def new_id(prefix: str) -> str:
    """An id that is not a secret."""
    return prefix + secrets.token_hex(6)


def sha256(token: str) -> str:
    """How a random token is stored."""
    return hashlib.sha256(token.encode()).hexdigest()


def csrf_token(session_token: str) -> str:
    """What a browser's page sends with writes: derived from the cookie, which scripts cannot read."""
    return hmac.new(session_token.encode(), b"csrf", hashlib.sha256).hexdigest()


def same(given: str, expected: str) -> bool:
    """Comparison in constant time."""
    return hmac.compare_digest(given.encode(), expected.encode())


def hash_password(password: str) -> str:
    """An argon2id hash with its parameters. Takes 64 MiB and some 50 ms: callers bound how many run."""
    return _HASHER.hash(password)


def password_matches(password_hash: str | None, password: str) -> bool:
    """Whether a password is right; an unknown user (None) takes as long as a wrong password."""
    try:
        _HASHER.verify(password_hash or _NOBODY, password)
    except (VerificationError, InvalidHashError):
        return False
    return password_hash is not None


def needs_rehash(password_hash: str) -> bool:
    """Whether a hash was made with older parameters."""
    return _HASHER.check_needs_rehash(password_hash)


def sealed(deployment_secret: str, purpose: str, text: str) -> str:
    """A secret that somebody else's service asks for, which a hash would not give back. `purpose`: what it is
    for, without which it is not opened."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    data = AESGCM(_sealing_key(deployment_secret)).encrypt(nonce, text.encode(), purpose.encode())
    return base64.b64encode(nonce + data).decode()


def unsealed(deployment_secret: str, purpose: str, text: str) -> str | None:
    """What was sealed; None: with another secret, or for another purpose."""
    data = base64.b64decode(text)
    try:
        opened = AESGCM(_sealing_key(deployment_secret)).decrypt(
            data[:_NONCE_BYTES], data[_NONCE_BYTES:], purpose.encode()
        )
    except InvalidTag:
        return None
    return opened.decode()


def _sealing_key(deployment_secret: str) -> bytes:
    return hmac.new(deployment_secret.encode(), b"portico/sealed/1", hashlib.sha256).digest()
