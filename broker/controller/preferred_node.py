"""The node a tool writes to have preferred replicas elected."""

from broker.controller.context import ControllerContext
from broker.controller.effects import Cause, Steps, note, read_one
from broker.controller.leadership import elect_preferred
from broker.controller.states import Group, commit_groups
from broker.metadata.znode_paths import PREFERRED_REPLICA_ELECTION
from broker.metadata.znodes import ZnodeDamaged, decode_partitions
from contracts.tree import Delete


def on_preferred_election_node(context: ControllerContext) -> Steps[None]:
    """Elect what /admin/preferred_replica_election names, then remove the node. Raises: Deposed."""
    node = yield from read_one(PREFERRED_REPLICA_ELECTION)
    if node is None:
        return
    try:
        asked = sorted(decode_partitions(node.data))
    except ZnodeDamaged as error:
        yield note(Cause.NODE_DAMAGED, path=PREFERRED_REPLICA_ELECTION, reason=str(error))
        asked = []
    yield from elect_preferred(context, [name for name in asked if context.partition(name) is not None])
    group = Group("node", [Delete(PREFERRED_REPLICA_ELECTION, node.stat.version)])
    yield from commit_groups(context, [group])
