"""Apache Kafka's own classes from Maven, cached outside the tree: for benchmarks and Java tests."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from ctl.errors import CommandError

TOOLS_VERSION: Final = "3.9.1"
"""The last with ZooKeeper-era tools and formats."""
PEER_VERSION: Final = "4.3.1"
"""What benchmarks compare with."""
_FETCH_TIMEOUT_S: Final = 900
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>portico</groupId><artifactId>kafka-tools</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version></dependency>
</dependencies></project>
"""


def missing_tools() -> list[str]:
    """What is not on PATH of what Kafka's classes need."""
    return [tool for tool in ("java", "mvn") if shutil.which(tool) is None]


def class_path(version: str = TOOLS_VERSION) -> str:
    """Kafka and what it needs, fetched once. Raises: CommandError without Java, Maven or the registry."""
    if missing := missing_tools():
        raise CommandError(f"Apache Kafka needs {' and '.join(missing)} on PATH")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "portico" / "kafka" / version
    library, complete = cache / "lib", cache / "complete"
    wanted = _POM.format(version=version)
    if not complete.exists() or complete.read_text() != wanted:
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "pom.xml").write_text(wanted)
        _fetch(version, cache, library)
        complete.write_text(wanted)
    return f"{library}/*"


def _fetch(version: str, cache: Path, library: Path) -> None:
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={library}"]
    fetched = subprocess.run(
        ["mvn", "-q", "-B", *goal],
        cwd=cache,
        capture_output=True,
        text=True,
        timeout=_FETCH_TIMEOUT_S,
        check=False,
    )
    if fetched.returncode != 0:
        raise CommandError(f"Maven could not fetch Kafka {version}:\n{fetched.stdout}{fetched.stderr}")
