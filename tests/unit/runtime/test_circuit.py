"""How long a server that failed is left alone."""

from runtime.circuit import FIRST_MS, LAST_MS, Circuit


def test_the_pause_doubles_up_to_a_bound_and_starts_anew_after_an_answer() -> None:
    circuit = Circuit()
    now_ms, pauses = 0, []
    for _ in range(9):
        circuit.failed("timeout", now_ms)
        began_ms = now_ms
        while not circuit.is_due(now_ms):
            now_ms += 1
        pauses.append(now_ms - began_ms)
    assert pauses == [250, 500, 1000, 2000, 4000, 8000, LAST_MS, LAST_MS, LAST_MS]
    assert circuit.succeeded()
    circuit.failed("timeout", now_ms)
    assert not circuit.is_due(now_ms + FIRST_MS - 1)
    assert circuit.is_due(now_ms + FIRST_MS)


def test_calls_that_began_before_it_opened_do_not_prolong_the_pause() -> None:
    circuit = Circuit()
    assert circuit.failed("timeout", 0)
    for at_ms in (1, 5, 99):
        assert not circuit.failed("timeout", at_ms)
    assert circuit.is_due(FIRST_MS)


def test_a_closed_circuit_is_never_due() -> None:
    circuit = Circuit()
    assert circuit.is_closed and not circuit.is_due(10**9)
    assert not circuit.succeeded()
