"""What the alert PorticoFollowerStale looks at: who asks for changes and does not take them."""

import time
from pathlib import Path

from tests.integration.control.process import PATIENCE_S, ControlProcess, running_control

_ORDER = {
    "name": "shop",
    "produce_rate_bytes_per_s": 10**6,
    "consume_rate_bytes_per_s": 10**6,
    "capacity_bytes": 10**9,
    "allow_all": True,
}


def _behind(control: ControlProcess, consumer: str) -> tuple[float, float]:
    """How many revisions a follower lacks, and whether it is live."""
    applied = control.metric("portico_feed_applied_revision", consumer=consumer, kind="gateway")
    live = control.metric("portico_feed_live", consumer=consumer, kind="gateway")
    return control.metric("portico_feed_revision") - applied, live


def test_a_follower_that_does_not_apply_is_told_from_one_that_is_gone(tmp_path: Path) -> None:
    with (
        running_control(tmp_path / "data") as control,
        control.client(control.operator_key) as operator,
        control.internal_client() as internal,
    ):
        body = {"consumer": "gateway-9", "kind": "gateway", "feed_id": "", "applied_revision": 0, "mark": ""}

        def poll(**position: object) -> dict[str, object]:
            answer = internal.post("internal/v1/feed", json={**body, "wait_ms": 0, **position})
            told: dict[str, object] = answer.raise_for_status().json()
            return told

        first = poll()
        seen = {"feed_id": first["feed_id"], "applied_revision": first["revision"], "mark": first["mark"]}
        poll(**seen)
        assert _behind(control, "gateway-9") == (0, 1)
        assert operator.post("instances", json=_ORDER).status_code == 201
        told = poll(**seen)  # it hears of the change, and goes on asking as if it had not
        poll(**seen)
        behind, live = _behind(control, "gateway-9")
        assert behind > 0 and live == 1
        poll(feed_id=told["feed_id"], applied_revision=told["revision"], mark=told["mark"])
        assert _behind(control, "gateway-9") == (0, 1)
        deadline = time.monotonic() + 3 * PATIENCE_S
        while _behind(control, "gateway-9")[1] == 1:  # silent for long enough it is gone, not stale
            assert time.monotonic() < deadline
            time.sleep(0.2)
