"""Racing leaders, deposed controllers, large batches: what happens between reading a state and writing it."""

from uuid import UUID

from broker.controller.api import NewTopic
from broker.controller.effects import Commit, Note, Send
from broker.controller.events import ControlledShutdown, CreateTopics
from broker.metadata.znode_paths import CONTROLLER_EPOCH
from contracts.cluster import ControlledShutdownRequest
from contracts.tree import Check
from tests.unit.controller.world import World


def cluster(partitions: int) -> World:
    world = World(1, 2, 3)
    for broker_id in (1, 2, 3):
        world.start(broker_id)
    world.elect(3)
    world.run()
    topic = NewTopic("t", UUID(int=1), assignment=dict.fromkeys(range(partitions), (1, 2, 3)))
    world.call(CreateTopics(1, [topic], False))
    return world


def run_until_commit(world: World) -> None:
    """The controller is about to write: the effect before its first commit is done."""
    node = world.controller
    while True:
        before = len(world.trace)
        assert world.step(3)
        if len(world.trace) > before and isinstance(world.trace[-1][1], Note):
            return
        assert node.steps is not None or node.events


def test_a_leaders_isr_counts_when_it_was_written_first() -> None:
    """Broker 1 dies; before the controller writes {2,3}, the node says {2}: 3 must not come back."""
    world = cluster(1)
    world.crash(1)
    run_until_commit(world)  # broker_failed is noted, the choice is made next
    node = world.controller
    commit = node.steps.send(node.result)
    while not isinstance(commit, Commit):
        commit = node.steps.send(world._carry_out(3, node, commit))
    world.shrink("t", 0, 1, 2)
    node.result = world._carry_out(3, node, commit)
    world.run()
    assert world.state("t", 0).leader == 2
    assert world.state("t", 0).isr == (2,)
    assert any(each.cause.value == "state_raced" for each in node.notes)


def test_one_raced_partition_does_not_hold_up_the_others() -> None:
    world = cluster(50)
    world.crash(1)
    run_until_commit(world)
    node = world.controller
    effect = node.steps.send(node.result)
    while not isinstance(effect, Commit):
        effect = node.steps.send(world._carry_out(3, node, effect))
    for partition in (0, 17, 49):
        world.shrink("t", partition, 1, 3)
    node.result = world._carry_out(3, node, effect)
    world.run()
    states = [world.state("t", partition) for partition in range(50)]
    assert [state.isr for state in states if state.leader == 3] == [(3,)] * 3
    assert [state.isr for state in states if state.leader == 2] == [(2, 3)] * 47


def test_a_deposed_controller_writes_and_says_nothing() -> None:
    world = cluster(1)
    world.crash(1)
    run_until_commit(world)
    del world.trace[:]
    world.oust()
    world.elect(2)
    while world.step(3):
        pass
    assert world.nodes[3].has_resigned
    assert world.state("t", 0).leader == 1
    assert not any(isinstance(effect, Send) for broker_id, effect in world.trace if broker_id == 3)
    world.run()
    assert world.state("t", 0).leader == 2


def test_two_thousand_partitions_are_a_handful_of_requests_and_batches() -> None:
    world = cluster(2_000)
    del world.trace[:]
    world.crash(1)
    world.run()
    commits = [effect for _, effect in world.trace if isinstance(effect, Commit)]
    sends = [effect for _, effect in world.trace if isinstance(effect, Send)]
    batches = [batch for effect in commits for batch in effect.batches]
    assert len(commits) == 1
    assert len(batches) == 10
    assert all(isinstance(batch[0], Check) and batch[0].path == CONTROLLER_EPOCH for batch in batches)
    assert all(sum(len(getattr(op, "data", b"")) for op in batch) < 512 * 1024 for batch in batches)
    assert len(sends) == 4
    del world.trace[:]
    world.start(1)
    world.run()
    assert len([effect for _, effect in world.trace if isinstance(effect, Send)]) == 4


def test_a_broker_that_leaves_is_not_taken_back_by_a_leader_that_has_not_heard() -> None:
    world = cluster(1)
    request = ControlledShutdownRequest(broker_id=2, broker_epoch=world.brokers[2].broker_epoch)
    world.call(ControlledShutdown(2, request))
    assert world.state("t", 0).isr == (1, 3)
    world.shrink("t", 0, 1, 3, 2)
    world.run()
    assert world.state("t", 0).isr == (1, 3)


def test_a_dead_broker_is_not_left_in_an_isr() -> None:
    """The leader took it in while the controller was taking it out."""
    world = cluster(1)
    world.shrink("t", 0, 1, 3)
    world.run()
    world.crash(2)
    world.shrink("t", 0, 1, 3, 2)
    world.run()
    assert world.state("t", 0).isr == (1, 3)
