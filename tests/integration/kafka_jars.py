"""Running Apache Kafka's own classes. This tier fails where Java or Maven is missing."""

import subprocess

from ctl.kafka.jars import TOOLS_VERSION, class_path

VERSION = TOOLS_VERSION


def run_java(main_class: str, *arguments: str, timeout_s: int = 120) -> subprocess.CompletedProcess[str]:
    command = ["java", "-Xmx512m", "-cp", class_path(VERSION), main_class, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
