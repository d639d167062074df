"""A drill that is stopped by a signal."""

import signal

import pytest

from ctl.drills.interrupts import heard_at_pauses

_SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


def _strike(number: signal.Signals, done: list[str]) -> None:
    with heard_at_pauses() as pause:
        try:
            signal.raise_signal(number)
            done.append("struck")
            pause(0)
            done.append("goes on")
        finally:
            signal.raise_signal(number)
            done.append("undone")


def _undo(number: signal.Signals, done: list[str]) -> None:
    with heard_at_pauses() as pause:
        pause(0)
        signal.raise_signal(number)
        done.append("undone")


@_SIGNALS
def test_a_signal_in_the_middle_of_a_strike_is_heard_at_the_next_pause(number: signal.Signals) -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        _strike(number, done)
    assert done == ["struck", "undone"]


@_SIGNALS
def test_a_signal_after_the_last_pause_is_heard_at_the_end(number: signal.Signals) -> None:
    handler = signal.getsignal(number)
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        _undo(number, done)
    assert done == ["undone"]
    assert signal.getsignal(number) is handler


def test_without_a_signal_nothing_is_raised() -> None:
    with heard_at_pauses() as pause:
        pause(0)
