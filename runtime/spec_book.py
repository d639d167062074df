"""What a follower knows of instances: as the feed tells it, and as it was told before. Pure.

Absence of information deletes nothing (ADR-0015). What a full answer leaves out becomes absent: it is kept
here with the spec it had, until the feed tells of it again or an order to purge it is one we may obey.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from contracts.specs import ClusterSpec, FeedResponse, InstanceSpec, InstanceState

_UNKNOWN_LINEAGE: Final = ""


class OutOfStepError(Exception):
    """Changes of another feed, or from before what we have. Nothing was taken; ask for everything."""


class Absent(msgspec.Struct, frozen=True, kw_only=True):
    """An instance that the feed told of once and tells of no more."""

    spec: InstanceSpec
    since_ms: int


class SavedBook(msgspec.Struct, frozen=True):
    """The book on the disk."""

    feed_id: str
    revision: int
    instances: tuple[InstanceSpec, ...]
    clusters: tuple[ClusterSpec, ...]
    mark: str = ""
    absent: tuple[Absent, ...] = ()
    elsewhere: dict[str, str] = {}
    version: int = 1
    written: str = ""
    """The name of this writing, which changes after it refer to."""


class Changed(NamedTuple):
    """What taking an answer changed."""

    instance_ids: set[str]
    purged: dict[str, InstanceSpec]
    """Whose data is to be removed now, with the order; forgotten here, but among the changed ids."""
    clusters: bool


class SpecBook:
    """Invariant: an id is in at most one of `instances` and `absent`."""

    def __init__(self) -> None:
        self.feed_id = ""
        self.revision = 0
        self.mark = ""
        self.instances: dict[str, InstanceSpec] = {}
        self.absent: dict[str, Absent] = {}
        self.clusters: dict[str, ClusterSpec] = {}
        self.refusals: dict[str, str] = {}
        """Deleted instance id -> why an order to purge it is not, or would not be, obeyed."""
        self._elsewhere: dict[str, str] = {}
        """Instance id -> the lineage that told of it last, where that is not the feed followed now."""

    def take(self, answer: FeedResponse, now_ms: int) -> Changed:
        """Take an answer of the feed. Raises: OutOfStepError.

        Units: `now_ms` is epoch time, noted with what becomes absent.
        """
        if answer.full:
            self._leave_history(answer)
        elif answer.feed_id != self.feed_id and not answer.continues:
            raise OutOfStepError(f"changes of feed {answer.feed_id}, not of {self.feed_id}")
        elif answer.revision < self.revision:
            raise OutOfStepError(f"changes up to {answer.revision}, older than {self.revision}")
        self.feed_id, self.revision, self.mark = answer.feed_id, answer.revision, answer.mark
        return self._apply(answer.instances, answer.clusters, answer.full, now_ms)

    def take_static(
        self, instances: Iterable[InstanceSpec], clusters: Iterable[ClusterSpec], now_ms: int
    ) -> Changed:
        """Take specs that no feed tells."""
        return self._apply(tuple(instances), tuple(clusters), True, now_ms)

    def _leave_history(self, answer: FeedResponse) -> None:
        """What was told in a history that this answer does not go on with was told elsewhere."""
        if answer.continues:
            return
        before = self.feed_id if self.feed_id != answer.feed_id else _UNKNOWN_LINEAGE
        for instance_id in (*self.instances, *self.absent):
            self._elsewhere.setdefault(instance_id, before)

    def _apply(
        self,
        instances: tuple[InstanceSpec, ...],
        clusters: tuple[ClusterSpec, ...],
        full: bool,
        now_ms: int,
    ) -> Changed:
        changed: set[str] = set()
        purged: dict[str, InstanceSpec] = {}
        if full:
            told = {spec.instance_id for spec in instances}
            for gone in self.instances.keys() - told:
                self.absent[gone] = Absent(spec=self.instances.pop(gone), since_ms=now_ms)
                changed.add(gone)
            self.clusters.clear()
        for spec in instances:
            if spec.state is InstanceState.PURGED:
                self._order(spec, now_ms, changed, purged)
            else:
                self._tell(spec, changed)
        self.clusters.update({spec.cluster_id: spec for spec in clusters})
        self.clusters = {key: spec for key, spec in self.clusters.items() if not spec.is_removed}
        return Changed(changed, purged, bool(clusters))

    def _tell(self, spec: InstanceSpec, changed: set[str]) -> None:
        """A spec that is not an order: of a living instance it says that this history has it now."""
        instance_id = spec.instance_id
        was_absent = self.absent.pop(instance_id, None) is not None
        if was_absent or self.instances.get(instance_id) != spec:
            changed.add(instance_id)
        self.instances[instance_id] = spec
        if not spec.state.is_gone:
            self._elsewhere.pop(instance_id, None)
        self._refuse(instance_id, self._objection(spec, is_known=True) if spec.state.is_gone else None)

    def _refuse(self, instance_id: str, reason: str | None) -> None:
        if reason is None:
            self.refusals.pop(instance_id, None)
        else:
            self.refusals[instance_id] = reason

    def _order(
        self, spec: InstanceSpec, now_ms: int, changed: set[str], purged: dict[str, InstanceSpec]
    ) -> None:
        instance_id = spec.instance_id
        known = self.instances.pop(instance_id, None)
        absent = self.absent.pop(instance_id, None)
        reason = self._objection(spec, is_known=known is not None or absent is not None)
        if reason is None:
            self._elsewhere.pop(instance_id, None)
            self._refuse(instance_id, None)
            purged[instance_id] = spec
            changed.add(instance_id)
            return
        if absent is None and known is not None:
            absent = Absent(spec=known, since_ms=now_ms)
            changed.add(instance_id)
        if absent is not None:
            self.absent[instance_id] = absent
            self._refuse(instance_id, reason)

    def _objection(self, order: InstanceSpec, *, is_known: bool) -> str | None:
        """Why an order to purge is not obeyed, or None."""
        deletion = order.deletion
        if deletion is None or deletion.lineage != self.feed_id:
            return "it was deleted in another feed than this one"
        if deletion.confirmed:
            return None
        if not is_known:
            return "nothing was known of it here"
        if order.instance_id in self._elsewhere:
            return f"it was told of last in another feed ({self._elsewhere[order.instance_id] or 'unknown'})"
        return None

    # -- the disk ---------------------------------------------------------------------------------------

    def save(self) -> SavedBook:
        """Everything that outlives the process."""
        return SavedBook(
            self.feed_id,
            self.revision,
            tuple(self.instances.values()),
            tuple(self.clusters.values()),
            self.mark,
            tuple(self.absent.values()),
            dict(self._elsewhere),
        )

    def restore(self, saved: SavedBook) -> None:
        """Go on where the run before stopped. Before any answer."""
        self.feed_id, self.revision, self.mark = saved.feed_id, saved.revision, saved.mark
        self.instances = {spec.instance_id: spec for spec in saved.instances}
        self.absent = {one.spec.instance_id: one for one in saved.absent}
        self.clusters = {spec.cluster_id: spec for spec in saved.clusters}
        self._elsewhere = dict(saved.elsewhere)
        for instance_id, spec in self.instances.items():
            if spec.state.is_gone:
                self._refuse(instance_id, self._objection(spec, is_known=True))

    def everything(self) -> Changed:
        """All that is known, as if it were new."""
        return Changed({*self.instances, *self.absent}, {}, bool(self.clusters))
