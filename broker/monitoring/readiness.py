"""Whether this broker may be counted on, so that another one may be restarted: asked at `/readyz`."""

from broker.metadata.metadata_cache import MetadataCache


def unready(metadata: MetadataCache, node_id: int, *, serves: bool) -> str | None:
    """Why not, or None. A broker that follows somewhere out of sync does not count for acks=all there, so a
    rolling restart waits for it. Called from the thread of the metrics."""
    if not serves:
        return "the broker starts: logs are read, the cluster is joined"
    if not metadata.is_known:
        return "no controller has described the cluster yet"
    behind = sum(
        node_id in state.replicas and node_id not in state.isr
        for topic in list(metadata)
        for state in list(topic.partitions.values())
    )
    return f"{behind} of its partitions are not in sync" if behind else None
