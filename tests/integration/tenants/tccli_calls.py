"""Tencent's tccli in a process of its own: reads a call per line from stdin, as JSON lists of arguments, and
prints what each one printed, as JSON. So its modules are loaded once, and it is run as it is.

It does not live beside the SDK of the tests: the launcher installs it into `.venv/tccli`.
"""

import contextlib
import io
import json
import sys
from typing import Any

from tccli.main import main  # puts an object of its own in the place of sys.stdout


class _Written(io.BytesIO):
    """Outlives the files that tccli makes of it, which close what they write to when they go."""

    def close(self) -> None:
        """Not yet."""


def call(arguments: list[str]) -> dict[str, Any]:
    """Exit code and output of one command."""
    sys.argv = ["tccli", *arguments]
    output, errors = _Written(), _Written()
    code: Any
    with (
        contextlib.redirect_stdout(io.TextIOWrapper(output, "utf-8", write_through=True)),
        contextlib.redirect_stderr(io.TextIOWrapper(errors, "utf-8", write_through=True)),
    ):
        try:
            code = main()
        except SystemExit as ended:
            code = ended.code
        sys.stdout.flush()
    return {"code": code, "output": output.getvalue().decode(), "errors": errors.getvalue().decode()}


if __name__ == "__main__":
    out = sys.stdout
    for line in sys.stdin:
        print(json.dumps(call(json.loads(line))), file=out, flush=True)
