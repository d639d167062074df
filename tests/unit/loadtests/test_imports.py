"""What the load tests take of the command line works without tables: they run without rich."""

import ast
import subprocess
import sys
from pathlib import Path

import loadtests

_SOURCES = sorted(Path(loadtests.__file__).parent.glob("*.py"))


def _used_of_ctl() -> set[str]:
    nodes = [node for path in _SOURCES for node in ast.walk(ast.parse(path.read_text()))]
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {module for module in modules if module.startswith("ctl.")}


def test_what_is_imported_of_the_command_line_needs_no_rich() -> None:
    used = sorted(_used_of_ctl())
    assert "ctl.console_client" in used
    script = f"import sys; sys.modules['rich'] = None; import {', '.join(used)}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
