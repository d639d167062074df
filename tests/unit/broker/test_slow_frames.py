"""When a frame that does not get complete closes its connection."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from broker.config import MIB, BrokerConfig
from broker.net.session import slow_frame
from broker.requests.causes import CloseCause

CONFIG = BrokerConfig(node_id=1, cluster_id="c", data_dir=Path("/nowhere"))


@given(frame_bytes=st.integers(8, 100 * MIB), share=st.floats(0, 1))
def test_every_frame_ends_in_bounded_time(frame_bytes: int, share: float) -> None:
    """However its bytes drip."""
    received = int(share * frame_bytes)
    bound_ms = CONFIG.frame_progress_timeout_ms + CONFIG.frame_time_max_ms
    slack_ms = 4_000  # of small frames, whose rate is the fixed one
    assert slow_frame(CONFIG, bound_ms + slack_ms, 0, received, frame_bytes) is CloseCause.FRAME_TOO_SLOW


def test_a_dripping_large_frame_is_gone_soon() -> None:
    """At 33 kB/s, which was enough, the largest frame lived for 50 minutes."""
    received = 40 * 33_000
    assert slow_frame(CONFIG, 40_000, 0, received, 100 * MIB) is CloseCause.FRAME_TOO_SLOW
    assert slow_frame(CONFIG, 40_000, 0, received, 2 * MIB) is None


def test_a_steady_frame_is_not_too_slow() -> None:
    for frame_bytes in (4 * MIB, 100 * MIB):
        for seconds in range(1, 60):
            received = min(frame_bytes, frame_bytes * seconds // 60)
            assert slow_frame(CONFIG, seconds * 1_000, 0, received, frame_bytes) is None


def test_one_that_stands_still_is_stalled() -> None:
    assert slow_frame(CONFIG, 31_000, 30_001, 10**6, 10**7) is CloseCause.FRAME_STALLED
