"""Libraries of Java programs from Maven Central, and classes of ours compiled against them."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from ctl.kafka.jars import DEFAULT_VERSION, fetched, java_program

_COMPILE_TIMEOUT_S: Final = 300


class Artifact(NamedTuple):
    """One of a project's; without a version it is Apache Kafka's."""

    group: str
    name: str
    version: str = DEFAULT_VERSION
    classifier: str | None = None


KAFKA: Final = "org.apache.kafka"
COMPILER: Final = Artifact("org.eclipse.jdt", "ecj", "3.33.0")
"""Eclipse's, which needs a Java runtime and no JDK; later ones need Java 21."""

SIMPLE_LOGGER: Final = Artifact("org.slf4j", "slf4j-simple", "1.7.36")
"""Writes what programs log to their stderr."""


def library(name: str, artifacts: Iterable[Artifact]) -> Path:
    """The directory of these artifacts and what they need, kept under this name.

    Raises: CommandError without Java, Maven or the registry.
    """
    wanted = "".join(map(_dependency, artifacts))
    return fetched(
        name,
        '<project xmlns="http://maven.apache.org/POM/4.0.0">\n<modelVersion>4.0.0</modelVersion>'
        f"<groupId>portico</groupId><artifactId>{name}</artifactId><version>1</version>\n"
        f"<dependencies>\n{wanted}</dependencies></project>\n",
    )


def class_path(*places: Path) -> str:
    """Of directories of classes and of jars, in this order."""
    return os.pathsep.join(f"{place}/*" if any(place.glob("*.jar")) else str(place) for place in places)


def compile_classes(jars: Path, sources: Path, classes: Path) -> None:
    """Compile all that is in a directory; the compiler is among the jars."""
    compiler = str(jars / f"{COMPILER.name}-{COMPILER.version}.jar")
    against = os.pathsep.join(sorted(map(str, jars.glob("*.jar"))))
    arguments = ["--release", "17", "-proc:none", "-nowarn", "-d", str(classes), "-cp", against]
    done = subprocess.run(
        [java_program(), "-jar", compiler, *arguments, str(sources)],
        capture_output=True,
        text=True,
        timeout=_COMPILE_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _dependency(artifact: Artifact) -> str:
    kind = "" if artifact.classifier is None else f"<classifier>{artifact.classifier}</classifier>"
    return (
        f"<dependency><groupId>{artifact.group}</groupId><artifactId>{artifact.name}</artifactId>"
        f"<version>{artifact.version}</version>{kind}</dependency>\n"
    )
