"""Spark's Kafka connector, Delta Lake and S3: pinned lists, fetched once by the Ivy inside PySpark.

The lists are not transitive: all else that these need is among PySpark's own jars.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import quoteattr

from pipeline.errors import PipelineError
from pipeline.java import find_java, package_dir

_FETCH_TIMEOUT_S: Final = 300


class Jar(NamedTuple):
    """One artifact of Maven Central."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The file name that Ivy gives it."""
        return f"{self.artifact}-{self.version}.jar"


def _pinned(name: str) -> tuple[Jar, ...]:
    """Of a list with lines `group:artifact:version sha256`."""
    lines = Path(__file__).with_name(name).read_text().splitlines()
    words = [line.replace(":", " ").split() for line in lines if not line.startswith("#")]
    return tuple(Jar(*each) for each in words)


JARS: Final = _pinned("spark_jars.lock")
S3_JARS: Final = _pinned("s3_jars.lock")

_SETTINGS: Final = (
    '<ivysettings><settings defaultResolver="central"/>'
    '<resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>'
)


def cache_dir() -> Path:
    """Where jars and what is made of them are kept between runs."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    pins = "\n".join(",".join(jar) for jar in JARS)
    return base / "portico" / "spark" / hashlib.sha256(pins.encode()).hexdigest()[:16]


def ensure_jars(say: Callable[[str], None], jars: Sequence[Jar] = JARS) -> list[Path]:
    """These jars, fetched where they are missing and checked each time.

    Raises: PipelineError when they cannot be fetched or are not the pinned ones.
    """
    library = cache_dir() / "lib"
    if any(fault(jar, library) for jar in jars):  # else nothing is written: an image's jars are read-only
        library.mkdir(parents=True, exist_ok=True)
        with (cache_dir() / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if any(fault(jar, library) for jar in jars):
                say(f"fetching {len(jars)} jars for Spark (once)")
                _fetch(library, jars)
    if wrong := [f"{jar.file_name} {found}" for jar in jars if (found := fault(jar, library))]:
        raise PipelineError(f"{', '.join(wrong)}: remove {library} and try again")
    return [library / jar.file_name for jar in jars]


def fault(jar: Jar, library: Path) -> str | None:
    """What is wrong with a jar in a folder, or None."""
    path = library / jar.file_name
    if not path.exists():
        return "is missing"
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    return None if found == jar.sha256 else "is not the one that is pinned (SHA-256 differs)"


def _fetch(library: Path, jars: Sequence[Jar]) -> None:
    pyspark = package_dir("pyspark")
    ivy = sorted((pyspark / "jars").glob("ivy-*.jar")) if pyspark is not None else []
    if not ivy:
        raise PipelineError("pyspark, which this runs on, is not installed: it is in portico[pipeline]")
    with tempfile.TemporaryDirectory(dir=library.parent) as name:
        scratch = Path(name)
        (scratch / "settings.xml").write_text(_SETTINGS)
        (scratch / "ivy.xml").write_text(_module(jars))
        command = [str(find_java()), "-jar", str(ivy[-1]), "-settings", "settings.xml", "-ivy", "ivy.xml"]
        command += ["-cache", "cache", "-retrieve", "lib/[artifact]-[revision].[ext]"]
        try:
            told = subprocess.run(
                command, cwd=scratch, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise PipelineError("the jars could not be fetched: is Maven Central reachable?") from None
        for path in (scratch / "lib").glob("*.jar"):
            shutil.move(path, library / path.name)
        if told.returncode != 0:
            lines = [line.strip() for line in told.stdout.splitlines() if "WARN" in line or "ERROR" in line]
            reason = "; ".join(lines[-3:]) or told.stderr.strip()[-300:]
            raise PipelineError(f"the jars could not be fetched ({reason}): is Maven Central reachable?")


def _module(jars: Sequence[Jar]) -> str:
    wanted = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)} "
        'transitive="false"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="portico" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f'<dependencies defaultconf="default->master">{wanted}</dependencies></ivy-module>'
    )
