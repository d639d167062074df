"""Where structures assert what takes a walk."""

import pytest

from contracts import invariants


def test_a_process_checks_what_its_environment_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "are_checked", False)
    for said, are_checked in (("1", True), ("", False), ("0", False)):
        invariants.check_if_asked({invariants.VARIABLE: said})
        assert invariants.are_checked is are_checked
    invariants.check_if_asked({})
    assert not invariants.are_checked
