"""What a job costs."""

import subprocess
import sys

from ctl.pipeline.cpu import cpu_ms

_BURN = (
    "import time, sys\nwhile time.process_time() < 0.3: pass\nprint('burnt', flush=True)\nsys.stdin.read()"
)
_PARENT = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {_BURN!r}])"


def test_what_children_and_theirs_burn_counts_while_they_run_and_afterwards() -> None:
    before = cpu_ms()
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None and parent.stdin is not None
        assert parent.stdout.readline() == b"burnt\n"
        assert cpu_ms() - before >= 250
        parent.stdin.close()
    assert cpu_ms() - before >= 250
