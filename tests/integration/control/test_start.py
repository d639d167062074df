"""A control process whose files are not its own, or that stands behind a proxy."""

import ctypes
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.integration.control.process import PATIENCE_S, ControlProcess, running_control
from tests.integration.stack import ROOT

_PR_CAPBSET_DROP = 24
_CAPABILITIES = (1, 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: with them permissions mean nothing to root."""


def _give_up_capabilities() -> None:
    """Runs in the child before exec; fails where there is nothing to give up."""
    libc = ctypes.CDLL(None)
    for capability in _CAPABILITIES:
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.mark.parametrize(
    "what",
    [
        "control/portico.db",
        pytest.param("control/master.db", marks=pytest.mark.long),
        pytest.param("internal.key", marks=pytest.mark.long),
    ],
)
def test_files_of_somebody_else_are_said_in_a_sentence(tmp_path: Path, what: str) -> None:
    process = ControlProcess(tmp_path / "data")
    try:
        process.start()
        assert process.stop() == 0
    finally:
        process.kill()
    for extra in ("-wal", "-shm"):
        (tmp_path / "data" / (what + extra)).unlink(missing_ok=True)
    (tmp_path / "data" / what).chmod(0o000)
    ended = subprocess.run(
        [sys.executable, "-m", "runtime.start", "ctl.control", *process.arguments()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
        check=False,
        preexec_fn=_give_up_capabilities,
    )
    assert ended.returncode == 1
    said = ended.stderr.strip().splitlines()
    assert len(said) == 1, ended.stderr
    assert "cannot be" in said[0]


def _log_in(process: ControlProcess, password: str, **headers: str) -> httpx.Response:
    return httpx.post(
        f"http://127.0.0.1:{process.public[1]}/v1/session",
        json={"user": "admin", "password": password},
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        timeout=PATIENCE_S,
        trust_env=False,
    )


def test_behind_a_trusted_proxy_addresses_are_told_apart_and_cookies_are_secure(tmp_path: Path) -> None:
    with running_control(tmp_path / "data", "--trusted-proxies", "127.0.0.0/8") as process:
        guesses = [_log_in(process, "wrong", X_Forwarded_For="203.0.113.9") for _ in range(6)]
        assert [one.status_code for one in guesses] == [401] * 5 + [429]
        neighbour = _log_in(process, process.admin_password, X_Forwarded_For="198.51.100.4")
        assert neighbour.status_code == 201
        assert "Secure" not in neighbour.headers["set-cookie"]
        over_tls = _log_in(
            process,
            process.admin_password,
            X_Forwarded_For="198.51.100.4",
            X_Forwarded_Proto="https",
        )
        assert "Secure" in over_tls.headers["set-cookie"]


def test_nobody_else_says_for_whom_he_speaks(tmp_path: Path) -> None:
    with running_control(tmp_path / "data") as process:
        guesses = [_log_in(process, "wrong", X_Forwarded_For=f"203.0.113.{n}") for n in range(6)]
        assert [one.status_code for one in guesses] == [401] * 5 + [429]
