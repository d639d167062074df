"""A stack of three brokers, and the command line beside it."""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ctl.main import main
from tests.integration.stack import Stack, running_stack


class Finished(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str


class Tools:
    """`portico ...` against one data directory, in this process: starting Python takes longer than most."""

    def __init__(self, stack: Stack, data_dir: Path | None = None) -> None:
        self.stack = stack
        self._data_dir = data_dir or stack.data_dir

    def elsewhere(self, data_dir: Path) -> "Tools":
        """The same commands with another data directory, which may hold nothing."""
        return Tools(self.stack, data_dir)

    def finished(self, *arguments: str) -> Finished:
        """A command that may fail."""
        out, err = io.StringIO(), io.StringIO()
        command = ["portico", *arguments, "--data-dir", str(self._data_dir)]
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "argv", command)
            patch.setenv("COLUMNS", "250")
            with pytest.raises(SystemExit) as ended:
                main()
        assert isinstance(ended.value.code, int)
        return Finished(ended.value.code, out.getvalue(), err.getvalue())

    def run(self, *arguments: str, code: int = 0) -> str:
        """Standard output; standard error when the command fails as it should."""
        done = self.finished(*arguments)
        assert done.code == code, done.out + done.err
        return done.out or done.err

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The same with --json, parsed."""
        return json.loads(self.run(*arguments, "--json", code=code))


@pytest.fixture(scope="package")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """Three brokers, for all tests of this package."""
    with running_stack(tmp_path_factory.mktemp("tools"), brokers=3) as stack:
        yield Tools(stack)
