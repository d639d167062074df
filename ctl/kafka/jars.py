"""Apache Kafka's own classes from Maven Central, cached outside the tree."""

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from ctl.errors import CommandError
from ctl.installation import INSTALL_PIPELINE
from pipeline.errors import PipelineError
from pipeline.java import find_java

DEFAULT_VERSION: Final = "4.3.1"
"""What is started unless somebody asks for another one, and what benchmarks compare with."""
TOOLS_VERSION: Final = "3.9.1"
"""The last with ZooKeeper-era tools and formats."""
_VERSION: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\Z")
_OLDEST: Final = (3, 9, 0)
_FETCH_TIMEOUT_S: Final = 900
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>portico</groupId><artifactId>kafka-tools</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version></dependency>
</dependencies></project>
"""


def parse_version(text: str) -> tuple[int, ...]:
    """A release that can be started, such as 4.3.1. Raises: ValueError with a sentence."""
    found = _VERSION.match(text)
    if found is None:
        raise ValueError(f"'{text}' is not a release of Apache Kafka, such as {DEFAULT_VERSION}")
    version = tuple(map(int, found.groups()))
    if version < _OLDEST:
        raise ValueError(f"{text} is older than {'.'.join(map(str, _OLDEST))}, the first that is served here")
    return version


def java_program() -> str:
    """The program `java`. Raises: CommandError."""
    try:
        return str(find_java())
    except PipelineError:
        raise CommandError(f"Apache Kafka needs Java, and none was found: {INSTALL_PIPELINE}") from None


def missing_tools() -> list[str]:
    """What is not on PATH of what Kafka's classes need."""
    return [tool for tool in ("java", "mvn") if shutil.which(tool) is None]


def class_path(version: str) -> str:
    """Kafka and what it needs, fetched once. Raises: CommandError without Java, Maven or the registry."""
    return f"{fetched(version, _POM.format(version=version))}/*"


def fetched(name: str, pom: str) -> Path:
    """The directory of the jars that a project needs, fetched once and kept under this name. Raises: as
    `class_path`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "portico" / "kafka" / name
    library, complete = cache / "lib", cache / "complete"
    if not _is_complete(complete, pom):
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_complete(complete, pom):
                (cache / "pom.xml").write_text(pom)
                _fetch(name, cache, library)
                complete.write_text(pom)
    return library


def _is_complete(mark: Path, wanted: str) -> bool:
    return mark.exists() and mark.read_text() == wanted


def _fetch(name: str, cache: Path, library: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise CommandError(f"Apache Kafka {name} is not here yet; fetching it needs Maven (mvn) on PATH")
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={library}"]
    try:
        fetched = subprocess.run(
            [maven, "-q", "-B", *goal],
            cwd=cache,
            env=_with_java(),
            capture_output=True,
            text=True,
            timeout=_FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CommandError(f"Maven could not fetch Kafka {name} within {_FETCH_TIMEOUT_S} s") from None
    if fetched.returncode != 0:
        raise CommandError(f"Maven could not fetch Kafka {name}:\n{fetched.stdout}{fetched.stderr}")


def _with_java() -> dict[str, str]:
    """Maven's own script looks for Java on PATH alone."""
    return {**os.environ, "JAVA_HOME": str(Path(java_program()).resolve().parents[1])}
