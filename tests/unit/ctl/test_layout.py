"""Ports that a stack draws."""

import subprocess
import sys

import pytest

from ctl.stack import layout


def test_a_port_that_was_drawn_is_drawn_by_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    port = layout.free_port()
    monkeypatch.setattr(layout, "_PORTS", range(port, port + 1))
    assert layout.free_port() != port
    draw = (
        f"from ctl.stack import layout; layout._PORTS = range({port}, {port + 1}); print(layout.free_port())"
    )
    other = subprocess.run([sys.executable, "-c", draw], check=True, capture_output=True, text=True)
    assert int(other.stdout) != port


def test_what_is_kept_of_draws_is_bounded() -> None:
    for _ in range(layout._DRAWN_KEPT + 5):
        layout.free_port()
    assert len(layout._drawn) == layout._DRAWN_KEPT
