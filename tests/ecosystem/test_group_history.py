"""What counts as lost, and as repeated."""

import pytest

from tests.ecosystem.group_history import events, faults


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        (["read 0 0 1\n", "read 0 1 2\n", "committed 0 2 3\n"], ""),
        (["read 0 0 1\n", "read 0 0 2\n", "read 0 1 3\n"], ""),  # nothing was committed in between
        (["read 0 0 1\n", "committed 0 2 3\n"], "1 of 0 are lost, the first is 1"),
        (["read 0 1 4\n", "read 0 0 1\n", "read 0 1 2\n", "committed 0 2 3\n"], "1 of 0 is read again"),
        (
            ["read 0 0 1\n", "read 0 1 2"],
            "1 of 0 are lost",
        ),  # the line is cut short: it may be of another offset
        (["read 0 0 1\n", "read 0 1 2\n", "WARN of the client\n"], ""),
    ],
)
def test_faults(told: list[str], wrong: str) -> None:
    found = faults(events(told), {0: 2})
    assert len(found) == bool(wrong)
    assert not wrong or found[0].startswith(wrong)
