"""Spark's Kafka connector, Delta Lake and object stores: pinned lists, fetched once from Maven Central.

The lists are not transitive: all else that these need is among PySpark's own jars.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import httpx

from pipeline.errors import PipelineError
from runtime.trusted import authorities

_FETCH_TIMEOUT_S: Final = 60.0
"""Without a byte."""
_CENTRAL: Final = "https://repo1.maven.org/maven2"


class Jar(NamedTuple):
    """One artifact of Maven Central."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """Its own."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def url(self) -> str:
        """Where everybody gets it."""
        return f"{_CENTRAL}/{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.file_name}"


def _pinned(name: str) -> tuple[Jar, ...]:
    """Of a list with lines `group:artifact:version sha256`."""
    lines = Path(__file__).with_name(name).read_text().splitlines()
    words = [line.replace(":", " ").split() for line in lines if not line.startswith("#")]
    return tuple(Jar(*each) for each in words)


JARS: Final = _pinned("spark_jars.lock")
STORE_JARS: Final = (*_pinned("s3_jars.lock"), *_pinned("azure_jars.lock"))


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
    """Raises: PipelineError."""
    try:
        with httpx.Client(timeout=_FETCH_TIMEOUT_S, verify=authorities(), follow_redirects=True) as central:
            for jar in jars:
                if fault(jar, library):
                    draft = library / f".{jar.file_name}"
                    draft.write_bytes(central.get(jar.url).raise_for_status().content)
                    draft.replace(library / jar.file_name)
    except httpx.HTTPError as error:
        raise PipelineError(
            f"the jars could not be fetched ({error or type(error).__name__}): is Maven Central reachable?"
        ) from error
