"""ZooKeeper's own server, run from the jars in PySpark's wheel with any Java there is."""

import socket
from pathlib import Path
from typing import Final

from ctl.errors import CommandError
from ctl.installation import INSTALL_PIPELINE
from pipeline.errors import PipelineError
from pipeline.java import find_java, package_dir

TICK_TIME_MS: Final = 200
"""ZooKeeper ends sessions only at whole ticks: a short one costs little and tells sooner of a death."""
SESSION_TIMEOUT_MS_MIN: Final = 400
SESSION_TIMEOUT_MS_MAX: Final = 60_000

_JARS: Final = (
    *("zookeeper-3", "zookeeper-jute", "audience-annotations", "metrics-core", "snappy-java", "jline-2"),
    *("slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j", "commons-io", "commons-cli"),
    *("jackson-annotations", "jackson-core", "jackson-databind"),
    *("netty-buffer", "netty-codec-4", "netty-codec-base", "netty-common", "netty-handler-4"),
    *("netty-resolver-4", "netty-transport-4", "netty-transport-classes-epoll"),
    "netty-transport-native-unix",
)
"""What ZooKeeper's server loads, by the beginning of the files' names."""
_FLAGS: Final = (
    *("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
    "-XX:+ExitOnOutOfMemoryError",
    "-Dzookeeper.preAllocSize=1024",  # KiB per transaction log, instead of 64 MiB
    "-Dlog4j2.level=WARN",
    "-Djava.net.preferIPv4Stack=true",
)
_MAIN: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"


def java_program() -> str:
    """The program `java`. Raises: CommandError."""
    try:
        return str(find_java())
    except PipelineError:
        raise _not_installed("no Java was found") from None


def is_installed() -> bool:
    """Whether the wheel with its jars is."""
    return package_dir("pyspark") is not None


def class_path() -> str:
    """ZooKeeper's jars in the installed pyspark. Raises: CommandError."""
    package = package_dir("pyspark")
    if package is None:
        raise _not_installed("pyspark, whose jars hold its server, is not installed")
    jars = sorted(path for path in (package / "jars").glob("*.jar") if path.name.startswith(_JARS))
    if not any(path.name.startswith("zookeeper-3") for path in jars):
        raise _not_installed(f"{package / 'jars'} holds no ZooKeeper")
    return ":".join(str(path) for path in jars)


def server_command(directory: Path, port: int) -> tuple[str, ...]:
    """The command of a server that keeps everything in a directory, which is to be its working directory.

    Raises: CommandError.
    """
    command = (java_program(), *_FLAGS, "-cp", class_path(), _MAIN)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "zoo.cfg").write_text(
        f"tickTime={TICK_TIME_MS}\n"
        f"minSessionTimeout={SESSION_TIMEOUT_MS_MIN}\n"
        f"maxSessionTimeout={SESSION_TIMEOUT_MS_MAX}\n"
        "dataDir=./data\n"  # relative: a Java properties file holds no path as it is
        f"clientPort={port}\n"
        "clientPortAddress=127.0.0.1\n"
        "admin.enableServer=false\n"
        "4lw.commands.whitelist=ruok,srvr,mntr\n"
        "maxClientCnxns=0\n"
        "autopurge.snapRetainCount=3\n"
        "autopurge.purgeInterval=1\n"
    )
    return (*command, "./zoo.cfg")


def is_serving(host: str, port: int, timeout_s: float = 0.5) -> bool:
    """Whether a ZooKeeper answers `ruok`."""
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(b"ruok")
            return connection.recv(4) == b"imok"
    except OSError:
        return False


def listens(host: str, port: int, timeout_s: float = 0.5) -> bool:
    """Whether anybody accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout_s):
            return True
    except OSError:
        return False


def _not_installed(why: str) -> CommandError:
    ways = f"{INSTALL_PIPELINE}, or name a running one with --zookeeper HOST:PORT"
    return CommandError(f"several brokers need ZooKeeper: {why}; {ways}")
