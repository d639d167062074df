"""Moves of instances between clusters: ordered, cancelled, looked at, and taken from phase to phase."""

from collections.abc import Callable, Container, Mapping
from typing import Final

from sqlalchemy import Connection

from contracts.names import SYSTEM_INSTANCE_ID
from contracts.specs import ConsumerKind, Engine
from runtime.clock import epoch_ms, monotonic_ms
from tenants.credentials import new_id
from tenants.purge_rule import FORGET_AFTER_MS
from tenants.rules.acknowledgement import Consumer
from tenants.rules.errors import Conflict, Invalid, NotFound, no_instance
from tenants.rules.lifecycle import State, unfit
from tenants.rules.model import Caller, Instance
from tenants.rules.moves import WORKED_ON, Event, Move, Phase
from tenants.store import audit, followers, instances, moves, registry
from tenants.store.audit import Entry
from tenants.store.engine import Store
from tenants.store.shared_session import Office
from tenants.usecases.ceilings import Ceilings
from tenants.usecases.placement import Placement

MOVES_MAX: Final = 100
"""Moves that are not over, instances whose old copy is kept among them."""
_GONE: Final = (State.PURGING, State.PURGED)


class Moves:
    """The use cases, and the transactions of who carries moves out."""

    def __init__(
        self,
        store: Store,
        placement: Placement,
        ceilings: Ceilings,
        changed: Callable[[], None],
        office: Office,
        *,
        followed: Callable[[], Mapping[str, Consumer]],
        unreachable: Callable[[], Container[str]],
    ) -> None:
        """`changed` is called after each commit that followers must hear of, `followed` says who they are."""
        self._store = store
        self._placement = placement
        self._ceilings = ceilings
        self._changed = changed
        self._followed = followed
        self._office = office
        self._unreachable = unreachable

    # --- orders -----------------------------------------------------------------------------------

    def newest(self, instance_id: str) -> Move:
        """The last move of an instance. Raises: NotFound."""
        with self._store.read() as connection:
            found = moves.newest(connection, instance_id)
        if found is None:
            raise NotFound("the instance has never been moved")
        return found

    def every(self) -> list[tuple[Move, Instance]]:
        """Those that are not over, in the order in which they began."""
        with self._store.read() as connection:
            found = moves.not_over(connection)
            known = {one.id: one for one in instances.by_ids(connection, {one.instance_id for one in found})}
        return [(one, known[one.instance_id]) for one in found]

    def check(self, instance: Instance, target: str) -> None:
        """Whether an instance may be moved there now. Raises: Invalid, Conflict, LimitReached."""
        with self._store.read() as connection:
            self._check(connection, instance, target)

    def order(self, caller: Caller, instance_id: str, target: str, *, fills_gaps: bool = False) -> Move:
        """Begin. Raises: NotFound, Invalid, Conflict, also without ports, LimitReached."""
        with self._store.write() as connection:
            instance = instances.by_id(connection, instance_id)
            if instance is None or not instance.is_visible:
                raise no_instance(instance_id)
            self._check(connection, instance, target)
            now_ms = epoch_ms()
            move = Move(
                id=new_id("mv_"),
                instance_id=instance.id,
                source=instance.cluster_id,
                target=target,
                phase=Phase.COPYING,
                started_by=caller.actor,
                started_at_ms=now_ms,
                updated_at_ms=now_ms,
                fills_gaps=fills_gaps,
            )
            moves.add(connection, move)
            # Its ports at the new brokers are there before it is: clients that come find them open.
            if self._placement.give_listeners(connection, instance.with_(cluster_id=target), now_ms):
                instances.save(connection, instances.again(connection, instance.id), now_ms)
            audit.record_of(connection, caller, instance, "instance.move", move.id, now_ms)
        self._changed()
        return move

    def _check(self, connection: Connection, instance: Instance, target: str) -> None:
        if instance.id == SYSTEM_INSTANCE_ID:
            raise Conflict("the system instance is Portico's own: it stays where it is")
        if instance.state not in (State.RUNNING, State.SUSPENDED):
            raise Conflict(f"instance '{instance.name}' is {instance.state.value}: only what runs is moved")
        if target == instance.cluster_id:
            raise Invalid([unfit("cluster", f"the instance is on cluster '{target}' already")])
        spec = registry.cluster(connection, target)
        if spec is None:
            raise Invalid([unfit("cluster", f"there is no cluster '{target[:80]}'")])
        if not spec.brokers or target in self._unreachable():
            raise Conflict(f"cluster '{target}' does not answer now")
        if target in registry.drained(connection):
            raise Conflict(f"cluster '{target}' is drained: it takes no instances")
        under_way = moves.not_over(connection, instance.id)
        if any(one.phase is Phase.SWITCHED for one in under_way):
            kept = next(one for one in under_way if one.phase is Phase.SWITCHED)
            raise Conflict(
                f"its copy of before is kept on cluster '{kept.source}': have it removed first (--purge-old)"
            )
        if under_way:
            raise Conflict(
                f"it moves to cluster '{under_way[0].target}' already ({under_way[0].phase.value})"
            )
        if len(moves.not_over(connection)) >= MOVES_MAX:
            raise Conflict(f"{MOVES_MAX} moves are not over: have old copies removed first")
        self._check_room(connection, instance, target)

    def _check_room(self, connection: Connection, instance: Instance, target: str) -> None:
        if not self._ceilings.fits(connection, instance.with_(cluster_id=target)):
            raise Conflict(f"cluster '{target}' has no room for it under its ceilings")

    def cancel(self, caller: Caller, instance_id: str) -> Move:
        """Stay where it is: the copy at the target is removed. Raises: NotFound, Conflict."""
        return self._ordered(caller, instance_id, Event.CANCEL, "instance.move-cancel")

    def purge_old(self, caller: Caller, instance_id: str) -> Move:
        """Remove the copy that is left where the instance was. Raises: NotFound, Conflict."""
        return self._ordered(caller, instance_id, Event.PURGE, "instance.move-purge")

    def _ordered(self, caller: Caller, instance_id: str, event: Event, action: str) -> Move:
        with self._store.write() as connection:
            move = moves.newest(connection, instance_id)
            instance = instances.by_id(connection, instance_id)
            if move is None or instance is None:
                raise NotFound("the instance has never been moved")
            now_ms = epoch_ms()
            after = move.after(event, now_ms)
            if after is None:
                raise Conflict(_impossible(move, event))
            self._save(connection, after, now_ms)
            audit.record_of(connection, caller, instance, action, move.id, now_ms)
        self._changed()
        return after

    # --- what is carried out ------------------------------------------------------------------------

    def to_work_on(self) -> list[Move]:
        """Moves that somebody has to go on with, and those whose old copy is kept. One whose instance is gone
        goes no further: a copy that is being made is removed, and one that was kept goes with the instance
        when that is purged."""
        with self._store.read() as connection:
            found = moves.in_phases(connection, WORKED_ON | {Phase.SWITCHED})
            known = {one.id: one for one in instances.by_ids(connection, {one.instance_id for one in found})}
        for move in found:
            instance = known[move.instance_id]
            if move.phase is Phase.SWITCHED and instance.state in _GONE:
                self.happens(move.id, Event.PURGE, "the instance was purged")
            elif move.phase in (Phase.COPYING, Phase.SWITCHING) and not instance.is_visible:
                self.happens(move.id, Event.CANCEL, "the instance was deleted")
        with self._store.read() as connection:
            return moves.in_phases(connection, WORKED_ON | {Phase.SWITCHED})

    def instance(self, move: Move) -> Instance:
        """The one that moves."""
        with self._store.read() as connection:
            return instances.again(connection, move.instance_id)

    def note(
        self,
        worked_on: Move,
        *,
        reason: str | None = None,
        copied_bytes: int | None = None,
        total_bytes: int | None = None,
        copies: dict[str, str] | None = None,
    ) -> None:
        """How far it is, and why it stands if so. Time and phase stay: those are events', and so does the
        reason of one that came meanwhile."""
        with self._store.write() as connection:
            move = moves.by_id(connection, worked_on.id)
            if move is None or move.is_over or not self._office.holds(connection):
                return
            told = {"copied_bytes": copied_bytes, "total_bytes": total_bytes, "copies": copies}
            noted = move.with_(**{key: value for key, value in told.items() if value is not None})
            if move.phase is worked_on.phase:
                noted = noted.with_(reason=reason)
            if noted != move:
                moves.save(connection, noted)

    def happens(self, move_id: str, event: Event, reason: str | None = None) -> Move | None:
        """Take an event; None when it is not possible any more. Gateways hear of what concerns them."""
        with self._store.write() as connection:
            move = moves.by_id(connection, move_id)
            if move is None or not self._office.holds(connection):
                return None
            now_ms = epoch_ms()
            after = move.after(event, now_ms, reason)
            if after is None:
                return None
            self._save(connection, after, now_ms)
            self._record(connection, after, event, now_ms)
        self._changed()
        return after

    def _save(self, connection: Connection, after: Move, now_ms: int) -> None:
        """With what goes with it: whether gateways hold the instance, and which ports it needs."""
        moves.save(connection, after)
        instance = instances.again(connection, after.instance_id)
        is_held = after.phase is Phase.SWITCHING
        if after.is_over and instance.state not in _GONE:  # a deleted one may be taken back
            cluster = registry.cluster(connection, instance.cluster_id)
            nodes = [one.node_id for one in cluster.brokers] if cluster is not None else []
            if nodes and registry.free_other_nodes(connection, instance.id, nodes, now_ms):
                instance = instances.save(connection, instances.again(connection, instance.id), now_ms)
        if instance.is_held != is_held:
            instances.save(connection, instance.with_(is_held=is_held), now_ms)

    @staticmethod
    def _record(connection: Connection, move: Move, event: Event, now_ms: int) -> None:
        if event in (Event.HOLD, Event.RELEASE):
            return  # attempts; the move says how many, and the log why
        # Tenants read this, and are told of no cluster.
        tenant = instances.again(connection, move.instance_id).tenant
        entry = Entry("system", tenant, f"instance.move-{event.value}", move.instance_id, move.id)
        audit.record(connection, entry, now_ms)

    def switch(self, move_id: str) -> Move:
        """From here on the instance is served from the target. Raises: Conflict where that may not be."""
        with self._store.write() as connection:
            move = moves.by_id(connection, move_id)
            now_ms = epoch_ms()
            after = None if move is None else move.after(Event.SWITCH, now_ms)
            if move is None or after is None or not self._office.holds(connection):
                raise Conflict("it was cancelled meanwhile")
            instance = instances.again(connection, move.instance_id)
            if not instance.is_visible or instance.cluster_id != move.source or not instance.is_held:
                raise Conflict("the instance was changed meanwhile")
            self._check_room(connection, instance, move.target)
            target = registry.cluster(connection, move.target)
            assert target is not None, "a cluster with a move is not removed"
            moved = instance.with_(
                cluster_id=move.target,
                is_held=False,
                epochs_anew=instance.epochs_anew or target.engine is Engine.APACHE,
            )
            instances.save(connection, moved, now_ms)
            if self._placement.give_listeners(connection, moved, now_ms):
                instances.save(connection, instances.again(connection, moved.id), now_ms)
            moves.save(connection, after)
            self._record(connection, after, Event.SWITCH, now_ms)
        self._changed()
        return after

    def hindrance(self, move: Move) -> str | None:
        """Why a switch would be given up if it was begun now. Gateways are not told to hold for that: a try
        costs clients a moment."""
        late = self.unacknowledged(move.instance_id)
        if late:
            return f"{', '.join(late)} may still serve clients, and does not answer"
        try:
            with self._store.read() as connection:
                self._check_room(connection, instances.again(connection, move.instance_id), move.target)
        except Conflict as refusal:
            return refusal.detail
        return None

    def unacknowledged(self, instance_id: str) -> list[str]:
        """Gateways that may still serve an instance as it was before its last change: those that live, and
        those that were heard of lately and have not said that they took it."""
        now_ms = monotonic_ms()
        with self._store.read() as connection:
            revision = instances.again(connection, instance_id).revision
            remembered = followers.all_of(connection)
        heard = self._followed()
        late = {
            name
            for name, one in heard.items()
            if one.kind is ConsumerKind.GATEWAY
            and one.applied_revision < revision
            and (one.is_live(now_ms) or now_ms - one.seen_ms < FORGET_AFTER_MS)
        }
        late |= {
            one.consumer
            for one in remembered
            if one.kind is ConsumerKind.GATEWAY
            and one.consumer not in heard
            and one.applied_revision < revision
            and epoch_ms() - one.heard_at_ms < FORGET_AFTER_MS
        }
        return sorted(late)


def _impossible(move: Move, event: Event) -> str:
    if move.is_over:
        return f"its move to cluster '{move.target}' is over ({move.phase.value})"
    if event is Event.CANCEL:
        return (
            f"it is served from cluster '{move.target}' since it was switched: what was written since is "
            "only there. Move it back"
        )
    return f"its move to cluster '{move.target}' is {move.phase.value}: nothing old is kept yet"
