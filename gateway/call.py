"""What a handler is given and what it answers with."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from contracts.specs import InstanceSpec
from gateway import answers
from gateway.ordering import Exchange
from wire.codec import response_class

if TYPE_CHECKING:
    from gateway.backend import Backend
    from gateway.connection import Connection
    from gateway.served import ServedInstance


class Forward(NamedTuple):
    """The request goes up, perhaps changed. Names in it are the tenant's; the rewrite follows."""

    request: Any


class Answer(NamedTuple):
    """The request is answered here."""

    response: Any


Outcome: TypeAlias = Forward | Answer
Later: TypeAlias = Coroutine[Any, Any, Outcome]


class Call:
    """One decoded request of one connection, as its handler sees it."""

    __slots__ = ("conn", "exchange")

    def __init__(self, conn: "Connection", exchange: Exchange) -> None:
        self.conn = conn
        self.exchange = exchange

    @property
    def api_key(self) -> int:
        """The request's API."""
        return self.exchange.api_key

    @property
    def api_version(self) -> int:
        """Its version."""
        return self.exchange.api_version

    @property
    def served(self) -> "ServedInstance":
        """The instance whose port the client came to."""
        return self.conn.served

    @property
    def spec(self) -> InstanceSpec:
        """Its current spec."""
        return self.conn.served.spec

    @property
    def backend(self) -> "Backend":
        """The cluster it lives on."""
        return self.conn.worker.backend(self.spec.cluster_id)

    def refuses_topic(self, topic: str) -> bool:
        """Whether the topic has a list of addresses and the client is on none of it."""
        whitelist = self.conn.served.topic_whitelists.get(topic)
        return whitelist is not None and not whitelist.admits(self.conn.address)

    def response(self, **known: Any) -> Any:
        """A response to this request; fields its version does not have are left out."""
        return answers.response(self.api_key, self.api_version, **known)

    def answer(self, **known: Any) -> Answer:
        """An answer made of what is known."""
        return Answer(self.response(**known))

    def has_response_field(self, name: str) -> bool:
        """Whether responses of this version have a top-level field."""
        return answers.has_field(response_class(self.api_key, self.api_version), name)
