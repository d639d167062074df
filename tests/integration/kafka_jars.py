"""Apache Kafka's own classes from Maven, in a cache outside the tree."""

import os
import shutil
import subprocess
from pathlib import Path

VERSION = "3.9.1"
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>portico</groupId><artifactId>kafka-tools</artifactId><version>1</version>
<dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
</dependency></dependencies></project>
"""


def class_path() -> str:
    """Kafka and what it needs, fetched once. Fails where Java or Maven is missing: this tier needs them."""
    for tool in ("java", "mvn"):
        assert shutil.which(tool), f"the java tier needs {tool} on PATH"
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "portico" / "kafka" / VERSION
    library, complete = cache / "lib", cache / "complete"
    if not complete.exists():
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "pom.xml").write_text(_POM)
        fetched = subprocess.run(
            [
                "mvn",
                "-q",
                "-B",
                "dependency:copy-dependencies",
                "-DincludeScope=runtime",
                f"-DoutputDirectory={library}",
            ],
            cwd=cache,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert fetched.returncode == 0, (
            f"Maven could not fetch Kafka {VERSION}:\n{fetched.stdout}{fetched.stderr}"
        )
        complete.touch()
    return f"{library}/*"


def run_java(main_class: str, *arguments: str, timeout_s: int = 120) -> subprocess.CompletedProcess[str]:
    command = ["java", "-Xmx512m", "-cp", class_path(), main_class, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
