"""What doctor says of a console that stands still."""

import socket
from pathlib import Path

import pytest

from ctl.commands import doctor
from tenants.rules.vports import parse_vip


@pytest.mark.timeout(25)  # less than other commands wait for an answer
def test_a_console_that_stands_still_is_soon_said_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_HEALTH_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as still:  # connects, and says nothing
        monkeypatch.setenv("PORTICO_URL", f"http://127.0.0.1:{still.getsockname()[1]}")
        monkeypatch.setenv("PORTICO_API_KEY", "pk_test")
        [finding] = doctor._console(tmp_path)
    assert (finding.level, finding.subject) == ("bad", "console")
    assert "does not answer" in finding.found


def test_vports_that_will_not_last_are_said_before_they_run_out() -> None:
    pool = parse_vip("127.0.0.1", 20000, 20099)
    [finding] = doctor.vport_findings(pool, 79)
    assert (finding.level, finding.found) == ("ok", "about 79 of 100 in use")
    [finding] = doctor.vport_findings(pool, 80)
    assert (finding.level, finding.found) == ("warn", "about 80 of 100 in use")
