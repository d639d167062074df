"""Who must have applied a revision."""

from contracts.specs import ConsumerKind
from tenants.rules.acknowledgement import SILENT_AFTER_MS, Consumer, Outcome, judge

_NOW = 100_000


def _gateway(applied: int, *, seen_ms: int = _NOW, failures: dict[str, str] | None = None) -> Consumer:
    return Consumer(ConsumerKind.GATEWAY, applied_revision=applied, seen_ms=seen_ms, failures=failures or {})


def _outcome(*consumers: Consumer) -> Outcome:
    return judge("i", 7, consumers, _NOW)[0]


def test_all_live_gateways_and_at_least_one() -> None:
    assert _outcome() is Outcome.WAITING
    assert _outcome(_gateway(7)) is Outcome.SERVED
    assert _outcome(_gateway(9), _gateway(6)) is Outcome.WAITING
    assert _outcome(_gateway(9), _gateway(7)) is Outcome.SERVED


def test_brokers_do_not_count() -> None:
    assert _outcome(Consumer(ConsumerKind.BROKER, applied_revision=9, seen_ms=_NOW)) is Outcome.WAITING
    assert _outcome(_gateway(7), Consumer(ConsumerKind.MASTER, seen_ms=_NOW)) is Outcome.SERVED


def test_silent_gateways_are_not_waited_for() -> None:
    silent = _gateway(1, seen_ms=_NOW - SILENT_AFTER_MS - 1)
    assert _outcome(silent) is Outcome.WAITING
    assert _outcome(silent, _gateway(7)) is Outcome.SERVED
    silent.polls_open = 1
    assert _outcome(silent, _gateway(7)) is Outcome.WAITING


def test_one_failure_at_this_revision_decides() -> None:
    outcome = judge("i", 7, [_gateway(7), _gateway(7, failures={"i": "port in use"})], _NOW)
    assert outcome == (Outcome.REFUSED, "port in use")
    stale = _gateway(6, failures={"i": "port in use"})
    assert _outcome(_gateway(7), stale) is Outcome.WAITING
    assert _outcome(_gateway(7, failures={"another": "x"})) is Outcome.SERVED
