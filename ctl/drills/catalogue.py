"""Every drill: what is lost, which alert tells, what it needs."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from ctl.drills import faults
from ctl.drills.faults import Sign
from ctl.drills.site import Site
from ctl.drills.timeline import Timeline


class Drill(NamedTuple):
    """One kind of loss."""

    what: str
    alerts: tuple[str, ...]
    """What would wake somebody; the first has the runbook that says what to do."""
    strike: Callable[[Site, Timeline], AbstractContextManager[Sign]]
    brokers: int = 1
    store: str | None = None
    """A store that has to be reached through the drill's own relay."""
    needs_small_disks: bool = False

    @property
    def runbook(self) -> str:
        """Its page."""
        return f"docs/runbooks/{self.alerts[0]}.md"

    @property
    def needs_own_stack(self) -> bool:
        """Whether it cannot be done to a stack that something else has started."""
        return self.store is not None or self.needs_small_disks


DRILLS: Final[Mapping[str, Drill]] = {
    "gateway": Drill("a gateway worker dies again and again", ("PorticoProcessDown",), faults.gateway),
    "control": Drill("control stands still", ("PorticoProcessDown",), faults.control),
    "redis": Drill("Redis cannot be reached", ("PorticoRedisDown",), faults.redis, store="redis"),
    "postgres": Drill("Postgres cannot be reached", ("PorticoStoreDown",), faults.postgres, store="postgres"),
    "broker": Drill(
        "a broker stands still", ("PorticoUnderReplicated", "PorticoProcessDown"), faults.broker, brokers=3
    ),
    "two-brokers": Drill(
        "two of three brokers stand still", ("PorticoUnderMinIsr",), faults.two_brokers, brokers=3
    ),
    "offline": Drill(
        "all replicas that may lead stand still",
        ("PorticoOfflinePartitions", "PorticoQuotaReportsMissing"),
        faults.offline,
        brokers=3,
    ),
    "zookeeper": Drill("ZooKeeper stands still", ("PorticoNoController",), faults.zookeeper, brokers=3),
    "master": Drill(
        "the elected quota master stands still", ("PorticoProcessDown",), faults.master, brokers=3
    ),
    "disk": Drill(
        "the disk of a broker is full",
        ("PorticoStorageErrors",),
        faults.disk,
        brokers=3,
        needs_small_disks=True,
    ),
}
