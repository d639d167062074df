"""What a handler is given and what it answers with."""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeAlias

from kio.static.protocol import Payload

from contracts.acls import CLUSTER_NAME, USER_PREFIX, Operation, ResourceType
from contracts.specs import InstanceSpec, Limits
from contracts.topic_policy import written_limits
from gateway.rules.acls import Rights
from gateway.session.conversation import Conversation
from gateway.session.deps import Deps
from gateway.session.ordering import Exchange
from gateway.session.surroundings import Cluster, Mutations
from gateway.stops import ConnectionStop
from wire.build import response
from wire.codec import response_class
from wire.framing import Buffer


class Forward(NamedTuple):
    """The request goes up, perhaps changed. Names in it are the tenant's; the rewrite follows."""

    request: Payload
    is_answered: bool = True
    """A Produce with acks=0 is not."""


class ForwardBody(NamedTuple):
    """The request goes up with a body that was encoded before, names in it as the broker knows them."""

    body: bytes


class Answer(NamedTuple):
    """The request is answered here."""

    response: Payload
    ends: ConnectionStop | None = None
    """Why the connection ends with this answer."""


class Encoded(NamedTuple):
    """The request is answered here with a body that was encoded before."""

    body: bytes


class Unanswered(NamedTuple):
    """The frame goes up in these buffers, and the broker says nothing to it: a Produce with acks=0."""

    buffers: list[Buffer]


Edited: TypeAlias = list[Buffer]
"""The frame goes up in these buffers."""
Outcome: TypeAlias = Forward | ForwardBody | Answer | Encoded


class Later(NamedTuple):
    """The outcome is known when somebody else has answered; the client's next request waits for it."""

    work: Callable[[Deps], Coroutine[Any, Any, Outcome]]


class Pending(NamedTuple):
    """A request whose outcome is known later, and what is needed to settle it then."""

    exchange: Exchange
    head: bytes
    later: Later


class Call:
    """One request of one connection, as its handler sees it."""

    __slots__ = ("conversation", "exchange", "instance")

    def __init__(self, conversation: Conversation, exchange: Exchange) -> None:
        self.conversation = conversation
        self.exchange = exchange
        self.instance = conversation.instance
        """The instance whose port the client came to."""

    @property
    def api_key(self) -> int:
        """The request's API."""
        return self.exchange.api_key

    @property
    def api_version(self) -> int:
        """Its version."""
        return self.exchange.api_version

    @property
    def spec(self) -> InstanceSpec:
        """The instance's current spec."""
        return self.instance.spec

    @property
    def cluster(self) -> Cluster:
        """The cluster it lives on."""
        return self.conversation.host.cluster

    @property
    def written_limits(self) -> Limits | None:
        """The limits that a topic's configs must hold, because its cluster applies none."""
        return written_limits(self.spec.limits, self.cluster.spec.engine)

    @property
    def mutations(self) -> Mutations:
        """The rate at which the instance creates and deletes partitions."""
        return self.conversation.host.mutations

    @property
    def node_id(self) -> int | None:
        """The broker that the request goes to; None: whichever."""
        return self.conversation.node_id

    def refuses_topic(self, topic: str, operation: Operation) -> bool:
        """Whether the client is not on the topic's list of addresses, or no ACL allows it this."""
        return self.refuses_address(topic) or self.refuses(ResourceType.TOPIC, topic, operation)

    def refuses_address(self, topic: str) -> bool:
        """Whether the topic has a list of addresses and the client is on none of it."""
        whitelist = self.instance.topic_whitelists.get(topic)
        return whitelist is not None and not whitelist.admits(self.conversation.address)

    def refuses_creation(self, topic: str) -> bool:
        """Whether no ACL allows the client to create this topic, or any."""
        of_topic = self.refuses(ResourceType.TOPIC, topic, Operation.CREATE)
        return of_topic and self.refuses_of_cluster(Operation.CREATE)

    @property
    def rights(self) -> Rights | None:
        """What the client may do; None: everything."""
        authority = self.instance.authority
        if authority is None:
            return None
        return authority.rights(self.conversation.principal, self.conversation.address)

    @property
    def is_superuser(self) -> bool:
        """Whether the client is a superuser of the instance."""
        principal = self.conversation.principal
        return any(user.superuser and USER_PREFIX + user.name == principal for user in self.spec.users)

    def refuses(self, resource_type: ResourceType, name: str, operation: Operation) -> bool:
        """Whether no ACL allows the client this."""
        rights = self.rights
        return rights is not None and not rights.allows(operation, resource_type, name)

    def refuses_of_cluster(self, operation: Operation) -> bool:
        """Whether no ACL allows the client this of the instance as a whole."""
        return self.refuses(ResourceType.CLUSTER, CLUSTER_NAME, operation)

    def mute(self, throttle_ms: int) -> None:
        """Take no further request of the connection for so long, as the answer to this one says."""
        if throttle_ms > 0:
            until_ms = self.conversation.host.now_ms() + throttle_ms
            self.conversation.muted_until_ms = max(self.conversation.muted_until_ms, until_ms)

    def response(self, **known: object) -> Payload:
        """A response to this request; fields its version does not have are left out."""
        return response(self.api_key, self.api_version, **known)

    def answer(self, **known: object) -> Answer:
        """An answer made of what is known."""
        return Answer(self.response(**known))

    @property
    def response_class(self) -> type[Payload]:
        """The response class of this request's API and version."""
        return response_class(self.api_key, self.api_version)
