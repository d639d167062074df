"""The login of one connection's client: SaslHandshake, then messages of a mechanism, perhaps again later.

What a client may ask before it is in stands in `BEFORE_LOGIN`; the conversation's `rows` are those or all, so
that nothing is asked per request. A login that has run out (KIP-368) leaves the rows as before.
"""

from typing import Final, NamedTuple

from contracts.users import SCRAM_MECHANISMS, Mechanism
from gateway.causes import DisconnectCause
from gateway.rules.logins import LoggedIn, LoginFault, Logins, TooManyTries, plain_message
from gateway.rules.scram import ScramFault, ScramServer
from gateway.rules.tokens import counted_as

MECHANISMS: Final = (*SCRAM_MECHANISMS, Mechanism.PLAIN)
UNSEEN_ENDS_MS: Final = 1_000
"""After so long a connection ends whose login was not looked at, because too many were wrong before."""
TOKEN_HOLDS_MS_MAX: Final = 24 * 3_600_000
"""So long a login by a token holds at most, however long the token does."""
_AGAIN_MS_MIN: Final = 1_000
"""Between two logins of a connection, as in Kafka: what they cost is no use to anybody."""


class Said(NamedTuple):
    """What the client is told."""

    message: bytes
    is_in: bool
    """Whether the login is done."""


class Refusal(Exception):  # noqa: N818 - an answer
    """The login has failed, and the connection ends."""

    def __init__(self, cause: DisconnectCause, mechanism: Mechanism, detail: str, delay_ms: int) -> None:
        super().__init__(detail)
        self.cause = cause
        self.mechanism = mechanism
        self.delay_ms = delay_ms
        """How late."""


class TenantLogin:
    """Where one client's login is. Times are monotonic ms."""

    __slots__ = (
        "_address",
        "_exchange",
        "_logins",
        "_mechanism",
        "expires_ms",
        "login",
        "since_ms",
        "takes_raw",
    )

    def __init__(self, logins: Logins, address: str, now_ms: int) -> None:
        self._logins = logins
        self._address = address
        self._mechanism: Mechanism | None = None
        """Of the exchange under way."""
        self._exchange: ScramServer | None = None
        self.login: LoggedIn | None = None
        """The last that has succeeded."""
        self.since_ms = now_ms
        """Since when the client should log in, or when it has."""
        self.expires_ms: int | None = None
        """When it has to be repeated; None: never."""
        self.takes_raw = False
        """After a handshake of version 0, messages come without Kafka's header."""

    @property
    def is_under_way(self) -> bool:
        """Whether messages of a mechanism are awaited."""
        return self._mechanism is not None

    def has_expired(self, now_ms: int) -> bool:
        """Whether the login has to be repeated before anything else is asked."""
        return self.expires_ms is not None and now_ms >= self.expires_ms

    def is_late(self, login_ms: int, now_ms: int, *, reads_client: bool) -> bool:
        """Whether the client had its time to log in. Time in which it is not read is not its own."""
        if self.login is not None:
            return False
        if not reads_client:
            self.since_ms = now_ms
        return now_ms - self.since_ms >= login_ms

    def may_begin(self, lifetime_ms: int, now_ms: int) -> bool:
        """Whether a handshake is in order: the first, or one that repeats a login that runs out."""
        if self.is_under_way:
            return False
        if self.login is None:
            return True
        return (lifetime_ms > 0 or self.expires_ms is not None) and now_ms - self.since_ms >= _AGAIN_MS_MIN

    def begin(self, mechanism: Mechanism) -> None:
        """The client has chosen."""
        self._mechanism = mechanism
        if mechanism in SCRAM_MECHANISMS:
            self._exchange = self._logins.scram(mechanism)

    def take(self, message: bytes, lifetime_ms: int, now_ms: int) -> Said:
        """A message of the mechanism; `lifetime_ms` is how long a login holds, 0: for ever.

        Raises: Refusal.
        """
        mechanism, exchange = self._mechanism, self._exchange
        assert mechanism is not None
        user = "" if exchange is None else exchange.user
        try:
            if mechanism is Mechanism.OAUTHBEARER:
                user = counted_as(message)
                self._logins.check_may_try(self._address, user, now_ms)
                proof, login = b"", self._logins.check_token(message)
            elif exchange is None:
                user, password = plain_message(message)
                self._logins.check_may_try(self._address, user, now_ms)
                proof, login = b"", self._logins.check_password(user, password)
            elif exchange.credential is None:
                return Said(exchange.first(message), is_in=False)
            else:
                self._logins.check_may_try(self._address, user, now_ms)
                proof, login = exchange.final(message), self._logins.scram_result(exchange)
            if self.login is not None and self.login.user != login.user:
                raise LoginFault("a connection stays its user's")
        except TooManyTries as fault:
            cause = DisconnectCause.TOO_MANY_WRONG_PASSWORDS
            raise Refusal(cause, mechanism, str(fault), UNSEEN_ENDS_MS) from fault
        except (LoginFault, ScramFault) as fault:
            delay_ms = self._logins.wrong(self._address, user, now_ms)
            cause = DisconnectCause.AUTHENTICATION_FAILED
            raise Refusal(cause, mechanism, str(fault), delay_ms) from fault
        self._logins.right(self._address, user)
        self.login = login
        self.since_ms = now_ms
        holds_ms = self._holds_ms(login, lifetime_ms)
        self.expires_ms = None if holds_ms is None else now_ms + holds_ms
        self._mechanism = self._exchange = None
        self.takes_raw = False
        return Said(proof, is_in=True)

    def _holds_ms(self, login: LoggedIn, lifetime_ms: int) -> int | None:
        """None: for ever."""
        if login.expires_epoch_ms is None:
            return lifetime_ms or None
        left_ms = login.expires_epoch_ms - self._logins.epoch_ms()
        return max(1, min(left_ms, lifetime_ms or TOKEN_HOLDS_MS_MAX, TOKEN_HOLDS_MS_MAX))
