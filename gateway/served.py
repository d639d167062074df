"""One instance as a worker serves it: its spec compiled for the data path, its connections and its counts."""

import asyncio
from collections import Counter, deque
from collections.abc import Iterable
from random import Random
from typing import Final, Protocol

from contracts.injected_faults import FaultKind
from contracts.server_names import NamedPort, named_listeners
from contracts.specs import InstanceSpec, InstanceState, Listener, RefusedAddress
from contracts.users import SecurityProtocol
from gateway.causes import REFUSED_AT_ACCEPT, DisconnectCause
from gateway.census import Account, Carried
from gateway.handshakes import Handshakes
from gateway.kept_answers import KEPT_BYTES_MAX, KeptAnswers
from gateway.kept_bytes import KeptBytes
from gateway.portions import Portions
from gateway.rules.acls import Authority
from gateway.rules.client_metrics import ClientMetrics
from gateway.rules.injected_faults import ActiveFaults, Taken
from gateway.rules.lifecycle import Event, Phase, next_phase
from gateway.rules.logins import Logins
from gateway.rules.topic_ids import TopicIds
from gateway.rules.whitelist import Whitelist
from gateway.session.surroundings import Entrance
from gateway.session.timers import Timeouts
from gateway.shared_question import SharedQuestion
from gateway.stops import ConnectionStop
from gateway.strangers import Strangers
from traffic.turns import Turn
from traffic.verdict import Full
from wire.scope import Scope, View

COLLECTED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Half-received requests of one instance on this worker: its own budget, so that others notice nothing."""
WAITING_BYTES_SOFT: Final = 8 * 1024 * 1024
"""Requests of one instance on a worker that were read and wait, for a turn, a broker or answers: beyond it
its connections are read in pieces of 64 KiB."""
_REFUSED_REMEMBERED: Final = 50
_HELD_PAUSE_MS: Final = 20
"""How often is looked whether an instance that is held is served again."""


class Served(Protocol):
    """A connection to the instance, as far as it has to be known here."""

    @property
    def address(self) -> str:
        """The client's."""

    @property
    def closed(self) -> bool:
        """Whether it has ended."""

    @property
    def carried(self) -> Carried:
        """What it has carried."""

    @property
    def listener(self) -> Listener:
        """Where the client came in."""

    @property
    def login_is_void(self) -> bool:
        """Whether its user is gone, or has another password now."""

    def overdue(self, timeouts: Timeouts, now_ms: int) -> DisconnectCause | None:
        """Why it must be closed now, or None."""

    def close(self, cause: DisconnectCause, detail: str = "") -> None:
        """End it and count the cause."""


class ServedInstance:
    """Lives from the first spec of an instance to its deletion; a new revision changes it in place."""

    def __init__(
        self,
        spec: InstanceSpec,
        turn: Turn,
        logins: Logins,
        client_metrics: ClientMetrics,
        named_port: NamedPort | None = None,
        *,
        now_ms: int,
    ) -> None:
        self._named_port = named_port
        self.turn: Final = turn
        """Its place in the worker's loop, and what its steps have cost."""
        self.logins: Final = logins
        self.client_metrics: Final = client_metrics
        """What its clients tell of themselves."""
        self.strangers: Final = Strangers()
        self.handshakes: Final[Handshakes[Served]] = Handshakes()
        self.phase = Phase.INITIALIZING
        self.reason = ""
        """Why the phase is `failed`, in a sentence."""
        self.connections: set[Served] = set()
        self.account: Final = Account(now_ms)
        """What its clients carried since they were counted."""
        self.at_door = 0
        """Accepted connections that wait for the instance's turn, at ports that it shares with others."""
        self.closed: Counter[str] = Counter()
        """Ended connections by cause, refused ones among them."""
        self.refused: deque[RefusedAddress] = deque(maxlen=_REFUSED_REMEMBERED)
        """Turned away by the whitelist since the last report."""
        self.requests: Counter[int] = Counter()
        self.waiting_bytes = 0
        """Bytes of requests that were read and wait, over all its connections."""
        self.bytes_in = self.bytes_out = 0
        """From clients, and to them."""
        self.portions: Final = Portions()
        self.partition_changes = asyncio.Lock()
        """Held while partitions are counted and added."""
        self.partition_counts: Final[SharedQuestion[dict[str, int]]] = SharedQuestion()
        """Asked of the cluster for all of its clients who want to know at once."""
        self.partitions_counted = 0
        """What that came to last."""
        self.spec_changed = asyncio.Event()
        """Set when a revision was taken; then another event stands here."""
        self.access_changes = asyncio.Lock()
        """Held while a user's order to change users or ACLs is carried out."""
        self.kept_answers: Final = KeptAnswers()
        self.kept_listings: Final = KeptBytes(KEPT_BYTES_MAX)
        self.topic_ids: Final = TopicIds()
        self.topic_lookups = asyncio.Lock()
        """Held while a cluster is asked for ids: one request of the instance at a time."""
        self.full: Full | None = None
        """What a Produce gets, at brokers that do not know that the instance is at capacity."""
        self.faults: ActiveFaults | None = None
        """What the tenant has injected; None, as nearly always: nothing."""
        self.faults_changed = asyncio.Event()
        """Set when a fault has begun or ended; then another event stands here."""
        self.held_back_bytes = 0
        """Bytes of requests that injected faults keep waiting, as far as they were read."""
        self.mutations: Counter[str] = Counter()
        """Partitions created and deleted by its clients, and those refused, by `mutation_bucket.Outcome`."""
        self.fault_hits: Counter[str] = Counter()
        """Requests, or connections, that a fault has hit, by its kind."""
        self._collected_bytes = 0
        self.instance_id: Final = spec.instance_id
        self.scope: Final = Scope(spec.instance_id)
        self.apply(spec)

    def apply(self, spec: InstanceSpec) -> None:
        """Take a revision: what the data path reads is recomputed, connections are not touched."""
        assert spec.instance_id == self.instance_id
        self.spec = spec
        self.spec_changed.set()
        self.spec_changed = asyncio.Event()
        self.kept_answers.forget()
        self.topic_ids.make_room(spec.limits.partitions_max)  # no topic is without a partition
        self.request_bytes_max = spec.limits.request_bytes_max
        self.whitelist = Whitelist(spec.whitelist, allow_all=spec.allow_all)
        self.topic_whitelists = {topic: Whitelist(cidrs) for topic, cidrs in spec.topic_whitelists.items()}
        self.authority = Authority(spec.acls, spec.users) if spec.acls_enforced else None
        """What its users may do; None: everything."""
        self.tells_clients_apart = bool(self.topic_whitelists) or self.authority is not None
        """Whether what a client may do with a topic depends on who it is."""
        self.passes_produce = self._passes_produce()
        """Whether a Produce goes up as it comes, but for names."""
        self.logins.take(spec.users, spec.oauth)
        self.client_metrics.apply(spec)
        self.named = named_listeners(spec.instance_id, spec.listeners, self._named_port)
        """What it has at the port that serves by names."""
        self.views = {
            Entrance(protocol, by_name): self._view(self.named if by_name else spec.listeners, protocol)
            for protocol in SecurityProtocol
            for by_name in (False, True)
        }
        """The cluster as the tenant sees it, by how the client came in."""

    def _view(self, listeners: Iterable[Listener], security_protocol: SecurityProtocol) -> View:
        return View(
            {
                listener.node_id: (listener.advertised_host, listener.port)
                for listener in listeners
                if listener.node_id is not None and listener.security_protocol is security_protocol
            },
            total_bytes=self.spec.capacity_bytes,
        )

    def _passes_produce(self) -> bool:
        decodes = self.faults is not None and self.faults.decodes
        return self.full is None and not self.tells_clients_apart and not decodes

    def set_full(self, full: Full | None) -> None:
        """The instance is at capacity, or is not any more, where brokers do not know it."""
        self.full = full
        self.passes_produce = self._passes_produce()

    def take_faults(self, now_ms: int, epoch_ms: int) -> None:
        """Take the injected faults of the spec. Units: `now_ms` is monotonic."""
        told = self.spec.injected_faults
        if self.faults is None and not told:
            return
        if self.faults is None:
            self.faults = ActiveFaults(Random(told[0].id).random, self.fault_hits)
        taken = self.faults.take(told, now_ms, epoch_ms)
        self._after_faults(taken, now_ms)
        if taken.resets_all:
            self.fault_hits[FaultKind.CONNECTION_RESET] += len(self.connections)
            self.cut(DisconnectCause.FAULT_INJECTED)

    def end_faults(self, now_ms: int, epoch_ms: int) -> None:
        """End those whose time is over, also when nobody tells any more."""
        assert self.faults is not None
        self._after_faults(self.faults.end_overdue(now_ms, epoch_ms), now_ms)

    def _after_faults(self, taken: Taken, now_ms: int) -> None:
        assert self.faults is not None
        if not self.faults.is_kept(now_ms):
            self.faults = None
        self.passes_produce = self._passes_produce()
        if taken.changed:
            self.faults_changed.set()
            self.faults_changed = asyncio.Event()

    def move(self, event: Event, reason: str = "") -> None:
        """Take an event of the life cycle."""
        self.phase = next_phase(self.phase, event)
        self.reason = reason if self.phase is Phase.FAILED else ""

    def entry_fault(self, address: str) -> DisconnectCause | None:
        """Why a client from this address may not have a connection, limits aside."""
        if self.spec.state is InstanceState.SUSPENDED:
            return DisconnectCause.INSTANCE_SUSPENDED
        if self.spec.state.is_gone:
            return DisconnectCause.INSTANCE_NOT_SERVED
        if self.spec.is_held:
            return DisconnectCause.INSTANCE_MOVED  # where the kernel does not keep it
        return None if self.whitelist.admits(address) else DisconnectCause.NOT_WHITELISTED

    def accept_pause_ms(self, listener: Listener, now_ms: int) -> int:
        """How long nobody is to be accepted there."""
        pause_ms = max(self.strangers.pause_ms(now_ms), _HELD_PAUSE_MS if self.spec.is_held else 0)
        if not listener.security_protocol.is_encrypted:
            return pause_ms
        return max(pause_ms, self.handshakes.pause_ms(now_ms))

    def count_refused(self, cause: DisconnectCause, address: str, at_ms: int) -> None:
        """A client was turned away at accept."""
        assert cause in REFUSED_AT_ACCEPT
        self.closed[cause] += 1
        if cause is DisconnectCause.NOT_WHITELISTED:
            self.refused.append(RefusedAddress(address=address, at_ms=at_ms))

    def cut(self, cause: DisconnectCause) -> None:
        """Close every connection."""
        for connection in tuple(self.connections):
            connection.close(cause)

    def cut_unwelcome(self) -> None:
        """Close the connections whose address or user is no longer admitted, and no others."""
        for connection in tuple(self.connections):
            if not self.whitelist.admits(connection.address):
                connection.close(DisconnectCause.WHITELIST_CHANGED)
            elif connection.login_is_void:
                connection.close(DisconnectCause.USER_CHANGED)

    def has_room(self, size_bytes: int) -> bool:
        """Whether so much is left of the budget for half-received requests."""
        return self._collected_bytes + size_bytes <= COLLECTED_BYTES_MAX

    def collect(self, size_bytes: int) -> None:
        """Take from the budget for half-received requests. Raises: ConnectionStop when it is spent."""
        if not self.has_room(size_bytes):
            raise ConnectionStop(DisconnectCause.BUFFER_BUDGET)
        self._collected_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """Give back to the budget."""
        self._collected_bytes -= size_bytes
        assert self._collected_bytes >= 0
