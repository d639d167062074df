"""One writer at a time where the target has no transactions."""

import time

import pytest

from pipeline.errors import PipelineError
from pipeline.mirror.lease import MARGIN_MS, SESSION_MS, Lease
from tests.integration.stack import Stack
from tests.pipeline.mirroring import Side


def test_a_second_holder_is_refused_until_the_first_releases(stack: Stack) -> None:
    side = Side(stack, "leased")
    first, second = (Lease(side.bootstrap, "mirror/elsewhere") for _ in range(2))
    first.acquire()
    until_ms = first.until_ms
    assert until_ms <= time.time_ns() // 1_000_000 + SESSION_MS - MARGIN_MS

    with pytest.raises(PipelineError, match="another mirror of the same source holds the lease"):
        second.acquire()

    deadline = time.monotonic() + 20
    while first.until_ms == until_ms and time.monotonic() < deadline:
        time.sleep(0.1)
    assert first.until_ms > until_ms, "the first goes on holding it"
    first.release()
    third = Lease(side.bootstrap, "mirror/elsewhere")
    third.acquire()
    third.release()
