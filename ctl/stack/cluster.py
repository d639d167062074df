"""What a data directory's cluster is made of: how many brokers, and where their metadata is kept."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from contracts.topic_policy import default_min_insync_replicas
from ctl.stack.layout import Layout
from runtime.config import ConfigFault, Resolved
from runtime.process import write_json

OWN: Final = "own"
"""The metadata is in a ZooKeeper that the stack runs."""
_REPLICATION_FACTOR_MAX: Final = 3
_DATA_DIRECTORY: Final = "the data directory"
_OF_BROKERS: Final = ("brokers", "zookeeper", "replication_factor", "min_insync_replicas")
"""Settings of brokers of our own."""


class Cluster(NamedTuple):
    """A cluster as the data directory remembers it."""

    brokers: int
    """Node ids are 1 to this."""
    zookeeper: str | None
    """OWN, the address of another ZooKeeper, or None: one broker keeps its metadata itself."""
    backend: str | None = None
    """HOST:PORT,... of an Apache Kafka, in the place of brokers of its own."""


def remembered(layout: Layout) -> Cluster | None:
    """The cluster of the last start, None before the first. Raises: ConfigFault."""
    try:
        kept = json.loads(layout.cluster_file.read_text())
        return Cluster(int(kept["brokers"]), kept["zookeeper"], kept.get("backend"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError) as error:
        raise ConfigFault([f"{layout.cluster_file} cannot be read: {error}"]) from error


def remember(layout: Layout, cluster: Cluster) -> None:
    """Keep it for the next start."""
    write_json(layout.cluster_file, cluster._asdict())


def settle(values: Mapping[str, Resolved], kept: Cluster | None) -> dict[str, Resolved]:
    """Settings with what follows from others filled in. Raises: ConfigFault with all faults at once."""
    settled = dict(values)
    if values["backend"].value is None and kept is not None and kept.backend is not None:
        settled["backend"] = Resolved(kept.backend, _DATA_DIRECTORY)
    if settled["backend"].value is not None:
        return _settled_backend(settled, kept)
    if values["brokers"].value is None:
        settled["brokers"] = Resolved(kept.brokers, _DATA_DIRECTORY) if kept else Resolved(1, "default")
    if values["zookeeper"].value is None and kept is not None and kept.zookeeper not in (None, OWN):
        settled["zookeeper"] = Resolved(kept.zookeeper, _DATA_DIRECTORY)
    brokers = settled["brokers"].value
    if values["replication_factor"].value is None:
        settled["replication_factor"] = Resolved(min(_REPLICATION_FACTOR_MAX, brokers), "from brokers")
    factor = settled["replication_factor"].value
    if values["min_insync_replicas"].value is None:
        settled["min_insync_replicas"] = Resolved(
            default_min_insync_replicas(factor), "from replication_factor"
        )
    faults = _faults(settled, kept)
    if faults:
        raise ConfigFault(faults)
    return settled


def _settled_backend(settled: dict[str, Resolved], kept: Cluster | None) -> dict[str, Resolved]:
    """There are no brokers of ours, and nothing to say of them. Raises: ConfigFault."""
    faults = [
        f"{settled[name].origin}: an Apache Kafka (--backend) has brokers and settings of its own"
        for name in _OF_BROKERS
        if settled[name].value is not None
    ]
    if kept is not None and kept.backend is None:
        faults.append(
            f"{settled['backend'].origin}: the data directory holds brokers of its own, and instances "
            "cannot be moved yet: name another data directory"
        )
    if faults:
        raise ConfigFault(faults)
    settled["brokers"] = Resolved(0, "from backend")
    return settled


def _faults(settled: Mapping[str, Resolved], kept: Cluster | None) -> list[str]:
    brokers, zookeeper = settled["brokers"], settled["zookeeper"]
    factor, in_sync = settled["replication_factor"], settled["min_insync_replicas"]
    rules = [
        (
            kept is None or brokers.value >= kept.brokers,
            f"{brokers.origin}: the data directory holds {kept and kept.brokers} brokers; their number may "
            "grow, not shrink",
        ),
        (
            kept is None or zookeeper.value is None or kept.zookeeper != OWN,
            f"{zookeeper.origin}: the metadata of this data directory is in a ZooKeeper of its own",
        ),
        (
            factor.value <= brokers.value,
            f"{factor.origin}: {factor.value} replicas need as many brokers, not {brokers.value}",
        ),
        (
            in_sync.value <= factor.value,
            f"{in_sync.origin}: {in_sync.value} is more than the replication factor {factor.value}",
        ),
    ]
    return [sentence for holds, sentence in rules if not holds]


def planned(values: Mapping[str, Any], kept: Cluster | None) -> Cluster:
    """The cluster to start, from settled values."""
    if values["backend"] is not None:
        return Cluster(0, None, values["backend"])
    brokers, address = values["brokers"], values["zookeeper"]
    own = brokers > 1 or (kept is not None and kept.zookeeper == OWN)
    return Cluster(brokers, address or (OWN if own else None))
