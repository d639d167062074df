"""An instance goes from a cluster of our brokers to another, and back, while its clients work."""

import contextlib
import time
from typing import Any

import httpx
import pytest

from tests.integration.moves.clients import (
    Consuming,
    Producing,
    Transacting,
    begin_group,
    make_topics,
    stored,
)
from tests.integration.moves.second_cluster import CLUSTER_ID, Broker
from tests.integration.stack import Stack


def until(stack: Stack, instance: str, *phases: str, within_s: float = 120.0) -> dict[str, Any]:
    """The move once it is in one of these phases."""
    deadline = time.monotonic() + within_s
    move: dict[str, Any] = {}
    while move.get("phase") not in phases:
        assert time.monotonic() < deadline, move
        time.sleep(0.05)
        with contextlib.suppress(httpx.TransportError):  # the control plane starts again
            move = stack.api("GET", f"instances/{instance}/move")
    return move


def moved(stack: Stack, instance: str, to: str, **wishes: bool) -> dict[str, Any]:
    """There, with the old copy kept."""
    stack.api("POST", f"instances/{instance}/move", {"cluster": to, **wishes}, expect=202)
    move = until(stack, instance, "switched", "cancelling", "cancelled")
    assert move["phase"] == "switched", move
    return move


def test_everything_goes_on_where_it_was(stack: Stack, second: Broker) -> None:
    instance = stack.create_instance("goes", cluster="builtin-1")
    bootstrap = instance["bootstrap_servers"]
    make_topics(bootstrap, "plain", "exact", **{"retention.ms": "3600000"})
    begin_group(bootstrap, "plain", "readers")
    producing = Producing(bootstrap, "plain").start()
    transacting = Transacting(bootstrap, "exact").start()
    consuming = Consuming(bootstrap, "plain", "readers").start()
    time.sleep(3)
    there = moved(stack, instance["id"], CLUSTER_ID)
    time.sleep(3)
    stack.api("DELETE", f"instances/{instance['id']}/move/old-copy", expect=202)
    until(stack, instance["id"], "done")
    back = moved(stack, instance["id"], "builtin-1")
    time.sleep(3)
    for worker in (producing, transacting, consuming):
        worker.stop()
    assert there["gap_ms"] < 2_000 and back["gap_ms"] < 2_000

    plain = stored(bootstrap, "plain")
    for partition, acked in producing.acked.items():
        assert plain[partition] == acked, "each once, in order, at the offset that was told"
    exact = [number for _, number in stored(bootstrap, "exact")[0]]
    assert exact == transacting.committed
    assert len(transacting.committed) > 100 and transacting.begun_anew == 0
    for partition, taken in consuming.taken.items():
        offsets = [offset for offset, _ in taken]
        assert sorted(set(offsets)) == list(range(max(offsets) + 1)), "nothing is left out"
        assert len(offsets) - len(set(offsets)) < 1_000, "a group goes on where it was"
        assert taken[-1][0] > plain[partition][-1][0] - 2_000, "and does go on"
    topic = stack.api("GET", f"instances/{instance['id']}/topics/plain")
    assert {one["name"]: one["value"] for one in topic["configs"]}["retention.ms"] == "3600000"


@pytest.mark.long
@pytest.mark.parametrize("phase", ["copying", "switching"])
def test_a_control_plane_that_dies_goes_on(stack: Stack, second: Broker, phase: str) -> None:
    instance = stack.create_instance(f"dies-{phase}", cluster="builtin-1")
    bootstrap = instance["bootstrap_servers"]
    make_topics(bootstrap, "plain")
    producing = Producing(bootstrap, "plain").start()
    time.sleep(2)
    stack.api("POST", f"instances/{instance['id']}/move", {"cluster": CLUSTER_ID}, expect=202)
    until(stack, instance["id"], phase, "switched")
    killed = stack.kill("control")
    stack.wait_for_restart("control", killed)
    until(stack, instance["id"], "switched")
    time.sleep(1)
    producing.stop()
    plain = stored(bootstrap, "plain")
    for partition, acked in producing.acked.items():
        assert plain[partition] == acked


@pytest.mark.long
def test_a_cancelled_move_leaves_nothing(stack: Stack, second: Broker) -> None:
    instance = stack.create_instance("stays", cluster="builtin-1")
    make_topics(instance["bootstrap_servers"], "plain")
    second.kill()
    try:
        stack.api("POST", f"instances/{instance['id']}/move", {"cluster": CLUSTER_ID}, expect=503)
    finally:
        second.start()
    stack.api("POST", f"instances/{instance['id']}/move", {"cluster": CLUSTER_ID}, expect=202)
    stack.api("POST", f"instances/{instance['id']}/move", {"cluster": CLUSTER_ID}, expect=409)
    stack.api("DELETE", f"instances/{instance['id']}/move")
    until(stack, instance["id"], "cancelled")
    assert stack.api("GET", f"instances/{instance['id']}")["state"] == "running"
    stack.api("DELETE", f"instances/{instance['id']}/move", expect=409)
    stack.api("DELETE", f"instances/{instance['id']}/move/old-copy", expect=409)
