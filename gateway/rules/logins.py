"""Who may log in at one instance, and how often wrong passwords are tried: by messages, without a clock.

What a wrong name is answered, and what it costs, is what a wrong password is: a name that is not there has a
salt, too, always the same, which follows from a secret.
"""

import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import pbkdf2_hmac
from typing import Final

from contracts.oauth import OauthSpec
from contracts.users import ITERATIONS, SALT_BYTES, KafkaUser, Mechanism, ScramCredential, hash_of
from gateway.rules.scram import ScramServer
from gateway.rules.tokens import Terms, TokenFault, Tokens, bearer_message
from gateway.rules.whitelist import folded_address
from traffic.login_limit import LoginLimit

WRONG_MAX_PER_PAIR: Final = 100
"""Wrong passwords in a minute for one user of an instance from one address (IPv6: /64), on one worker."""
WRONG_MAX_PER_ADDRESS: Final = 1_000
"""Wrong passwords in a minute at an instance from one address, whoever it names, on one worker."""
WRONG_ANSWERED_MS_MAX: Final = 10_000
"""How late the answer to a wrong password leaves at most; from 100 ms on it doubles with each one."""
_WRONG_ANSWERED_MS: Final = 100
_DOUBLED_MAX: Final = 10
_PAIRS_MAX: Final = 256
_NAME_CHARS_MAX: Final = 128
"""Longer names are nobody's, and are counted as one."""
_NONCE_BYTES: Final = 18
_V6_NETWORK_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """Whose login holds, and what it was checked by."""

    user: str
    credential: ScramCredential | Terms
    expires_epoch_ms: int | None = None
    """Of a token."""


class LoginFault(Exception):  # noqa: N818 - the client's doing
    """A login is refused; the text is for our log."""


class TooManyTries(LoginFault):
    """Nothing was looked at: too many wrong passwords came before."""


class Logins:
    """Of one instance on one worker."""

    def __init__(self, secret: bytes, draw: Callable[[int], bytes], epoch_ms: Callable[[], int]) -> None:
        """`secret` is the same on all workers; `draw` gives so many random bytes."""
        self._secret = secret
        self._draw = draw
        self.epoch_ms: Final = epoch_ms
        """The time by which tokens are valid."""
        self._tokens: Tokens | None = None
        self._own_key = draw(32)
        self._users: dict[str, dict[Mechanism, ScramCredential]] = {}
        self._iterations = [ITERATIONS]
        """Those in use: a name that is not there has one of them, or another number would tell it."""
        self._right: dict[str, bytes] = {}
        """User -> a digest of the password that was found right: it is not derived again."""
        self._limit = LoginLimit(WRONG_MAX_PER_PAIR, WRONG_MAX_PER_ADDRESS, _PAIRS_MAX)

    def take(self, users: Iterable[KafkaUser], oauth: OauthSpec | None = None) -> None:
        """These are the users now, and the tokens that others may come with."""
        if oauth != (None if self._tokens is None else self._tokens.spec):
            self._tokens = None if oauth is None else _token_rules(oauth)
        users = tuple(users)
        before = self._users
        used = [one.iterations for user in users for one in user.credentials]
        self._iterations = sorted(used) or [ITERATIONS]
        self._users = {user.name: {one.mechanism: one for one in user.credentials} for user in users}
        for name in [name for name in self._right if self._users.get(name) != before.get(name)]:
            del self._right[name]

    @property
    def takes_tokens(self) -> bool:
        """Whether clients may come with tokens."""
        return self._tokens is not None

    def holds(self, login: LoggedIn) -> bool:
        """Whether the user is still there, with the same password; or its token would be taken today."""
        if isinstance(login.credential, Terms):
            return self._tokens is not None and self._tokens.holds(login.credential)
        return self._users.get(login.user, {}).get(login.credential.mechanism) == login.credential

    def knows(self, user: str) -> bool:
        """Whether there is such a user."""
        return user in self._users

    def credential_of(self, mechanism: Mechanism, user: str) -> ScramCredential:
        """What a password is checked by; of a user that is not there, what no password matches."""
        nobodys = self._nobodys(mechanism, user)  # made for everybody: it takes time
        return self._users.get(user, {}).get(mechanism, nobodys)

    def _nobodys(self, mechanism: Mechanism, user: str) -> ScramCredential:
        drawn = hmac.digest(self._secret, f"{mechanism}/{user}".encode(), "sha256")
        salt = drawn[:SALT_BYTES]
        key = hash_of(mechanism, self._own_key + salt)
        iterations = self._iterations[drawn[-1] % len(self._iterations)]
        return ScramCredential(
            mechanism=mechanism, salt=salt, iterations=iterations, stored_key=key, server_key=key
        )

    # Tries

    def check_may_try(self, address: str, user: str, now_ms: int) -> None:
        """Raises: TooManyTries."""
        if self._limit.retry_after_ms(_network(address), _counted(user), now_ms):
            raise TooManyTries(f"too many wrong passwords of {address}")

    def wrong(self, address: str, user: str, now_ms: int) -> int:
        """Count a wrong password; the answer may leave after so many ms. A client that only has the wrong
        one, and tries again at once, must not use up the tries of those beside it."""
        pair = _network(address), _counted(user)
        self._limit.failed(*pair, now_ms)
        doubled = min(self._limit.failures(*pair, now_ms) - 1, _DOUBLED_MAX)
        return min(_WRONG_ANSWERED_MS << doubled, WRONG_ANSWERED_MS_MAX)

    def right(self, address: str, user: str) -> None:
        """Forget the wrong ones of this user from there."""
        self._limit.succeeded(_network(address), _counted(user))

    # Exchanges

    def scram(self, mechanism: Mechanism) -> ScramServer:
        """A new exchange."""
        nonce = self._draw(_NONCE_BYTES).hex()
        return ScramServer(mechanism, nonce, lambda user: self.credential_of(mechanism, user))

    def scram_result(self, exchange: ScramServer) -> LoggedIn:
        """Who has proved the password. Raises: LoginFault when the user was changed since it began."""
        assert exchange.credential is not None
        login = LoggedIn(exchange.user, exchange.credential)
        if not self.holds(login):
            raise LoginFault("the user was changed meanwhile")
        return login

    def check_password(self, user: str, password: str) -> LoggedIn:
        """Whose password it is. What it costs does not depend on whether there is such a user.

        Raises: LoginFault.
        """
        found = self.credential_of(Mechanism.SCRAM_SHA_256, user)
        digest = hmac.digest(self._own_key, password.encode(), "sha256")
        if not hmac.compare_digest(digest, self._right.get(user, b"")):
            salted = pbkdf2_hmac("sha256", password.encode(), found.salt, found.iterations)
            stored_key = hash_of(found.mechanism, hmac.digest(salted, b"Client Key", "sha256"))
            login = LoggedIn(user, found)
            if not hmac.compare_digest(stored_key, found.stored_key) or not self.holds(login):
                raise LoginFault("wrong password")
            self._right[user] = digest
        return LoggedIn(user, found)

    def check_token(self, message: bytes) -> LoggedIn:
        """Who brings a message of OAUTHBEARER. Raises: LoginFault."""
        if self._tokens is None:
            raise LoginFault("no tokens are taken any more")
        try:
            wanted, token = bearer_message(message)
            taken = self._tokens.take(token, self.epoch_ms())
        except TokenFault as fault:
            raise LoginFault(str(fault)) from fault
        if wanted not in ("", taken.user):
            raise LoginFault("for another user")
        return LoggedIn(taken.user, taken.terms, taken.expires_epoch_ms)


def plain_message(message: bytes) -> tuple[str, str]:
    """(user, password) of a message of PLAIN (RFC 4616). Raises: LoginFault."""
    try:
        for_user, user, password = message.decode().split("\0")
    except ValueError as error:  # not UTF-8, or other than two NULs
        raise LoginFault("no message of PLAIN") from error
    if not user or not password or for_user not in ("", user):
        raise LoginFault("no user, no password, or for another user")
    return user, password


def _network(address: str) -> str:
    version, number = folded_address(address)
    return f"{version}/{number >> _V6_NETWORK_BITS if version == 6 else number}"


def _counted(user: str) -> str:
    return user if len(user) <= _NAME_CHARS_MAX else ""


def _token_rules(oauth: OauthSpec) -> Tokens:
    from gateway.rules.token_rules import TokenRules  # with what nobody pays for who takes no tokens

    return TokenRules(oauth)
