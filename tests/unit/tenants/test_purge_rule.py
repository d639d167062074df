"""When a deleted instance may be purged: everything that is not known delays it."""

from dataclasses import replace
from typing import Any

import pytest

from contracts.specs import ConsumerKind, Deletion
from tenants.purge_rule import FORGET_AFTER_MS, LATELY_MS, LEARN_MS, World, hindrance
from tenants.rules.lifecycle import State
from tenants.rules.model import Instance
from tenants.store.followers import Follower

NOW_MS = 10_000_000
X = "iaaaaaaaaaaa"


def instance(**changes: Any) -> Instance:
    deletion = Deletion(deleted_at_ms=1, purge_after_ms=2, lineage="f", **changes)
    return Instance(
        id=X,
        tenant="t",
        name="n",
        state=State.DELETED,
        cluster_id="c",
        produce_rate_bytes_per_s=1,
        consume_rate_bytes_per_s=1,
        capacity_bytes=1,
        deletion=deletion,
        created_at_ms=0,
        updated_at_ms=0,
        revision=40,
    )


def broker(node_id: int, **changes: Any) -> Follower:
    return replace(
        Follower(
            consumer=f"broker-{node_id}",
            kind=ConsumerKind.BROKER,
            feed_id="f",
            applied_revision=41,
            heard_at_ms=NOW_MS - 1_000,
            cluster_id="c",
            node_id=node_id,
        ),
        **changes,
    )


def gateway(**changes: Any) -> Follower:
    known = {"consumer": "gateway-0", "kind": ConsumerKind.GATEWAY, "cluster_id": None, "node_id": None}
    return replace(broker(0), **(known | changes))


def world(*followers: Follower, **changes: Any) -> World:
    base = World(
        feed_id="f",
        started_at_ms=NOW_MS - 3_600_000,
        now_ms=NOW_MS,
        brokers=frozenset({("c", 1), ("c", 2), ("elsewhere", 1)}),
        followers=followers,
    )
    return replace(base, **changes)


def test_nothing_stands_against_it_when_everybody_has_heard_of_it() -> None:
    assert hindrance(instance(), world(broker(1), broker(2), gateway())) is None


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        ("restored", world(broker(1), broker(2), feed_id="another")),
        ("just started", world(broker(1), broker(2), started_at_ms=NOW_MS - LEARN_MS + 1)),
        ("broker 2 was not heard of", world(broker(1))),
        ("broker 2 was", world(broker(1), broker(2, heard_at_ms=NOW_MS - LATELY_MS - 1))),
        ("broker 2 was", world(broker(1), broker(2, feed_id="before"))),
        (
            "broker 1, 2 was",
            world(broker(1), broker(2), started_at_ms=NOW_MS, now_ms=NOW_MS + LEARN_MS),
        ),
        ("broker-2 must hear", world(broker(1), broker(2, applied_revision=39))),
        ("gateway-0 must hear", world(broker(1), broker(2), gateway(applied_revision=39))),
        (
            "gateway-0 must hear",
            world(
                broker(1),
                broker(2),
                gateway(applied_revision=39, heard_at_ms=NOW_MS - FORGET_AFTER_MS + 1),
            ),
        ),
        ("gateway-0 must hear", world(broker(1), broker(2), gateway(feed_id="before"))),
        ("broker-1 objects: known elsewhere", world(broker(1, objections={X: "known elsewhere"}), broker(2))),
        ("gateway-0 objects", world(broker(1), broker(2), gateway(objections={X: "known elsewhere"}))),
    ],
)
def test_what_delays_a_purge(reason: str, found: World) -> None:
    told = hindrance(instance(), found)
    assert told is not None and reason in told


def test_a_gateway_that_is_long_gone_serves_nobody() -> None:
    silent = gateway(applied_revision=0, heard_at_ms=NOW_MS - FORGET_AFTER_MS)
    assert hindrance(instance(), world(broker(1), broker(2), silent)) is None


def test_without_a_deletion_never() -> None:
    assert hindrance(replace(instance(), deletion=None), world(broker(1), broker(2))) is not None


def test_an_operators_word_waits_only_for_who_lives() -> None:
    named = instance(confirmed=True)
    objecting = broker(1, objections={X: "known elsewhere"})
    assert hindrance(named, world(objecting)) is None
    assert hindrance(named, world(broker(2, applied_revision=0, heard_at_ms=NOW_MS - LATELY_MS))) is None
    assert "must hear" in str(hindrance(named, world(gateway(applied_revision=39))))
    assert "restored" in str(hindrance(named, world(feed_id="another"))), "said in another history"
