"""Hadoop's own NameNode and DataNode in processes of their own, from Maven Central and PySpark's jars."""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

import pyspark
from hdfs_native import Client
from obstore.exceptions import BaseError

from ctl.stack.layout import free_port
from pipeline.hdfs import HdfsStore
from pipeline.jars import Jar, ensure_jars
from pipeline.java import find_java

_SERVERS: Final = Jar(
    "org.apache.hadoop",
    "hadoop-client-minicluster",
    "3.5.0",
    "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
)
_ITS_CLIENT: Final = ("hadoop-client-*", "jcl-over-slf4j-*", "log4j-*", "slf4j-*")
ADMIN: Final = "org.apache.hadoop.hdfs.tools.DFSAdmin"
NAME_NODE: Final = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA_NODE: Final = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_START_TIMEOUT_S: Final = 60


class HdfsServer(NamedTuple):
    """Where it answers, and the folder that says so to its clients."""

    root: str
    settings: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to use it: how many replicas files have is said by clients."""
        return {"HADOOP_USER_NAME": "lakes", "HADOOP_CONF_DIR": str(self.settings)}


@contextmanager
def hdfs_server(folder: Path) -> Iterator[HdfsServer]:
    """On free ports, with all that it keeps below `folder`."""
    url = f"hdfs://127.0.0.1:{free_port()}"
    names = {"dfs.namenode.http-address": "127.0.0.1:0", "dfs.namenode.name.dir": str(folder / "names")}
    write_settings(folder, url, names)
    must_run(folder, NAME_NODE, "-format", "-nonInteractive")
    with running(folder, NAME_NODE) as name_node, running(folder, DATA_NODE) as data_node:
        wait_for(url, {}, [name_node, data_node])
        yield HdfsServer(url, folder)


def write_settings(folder: Path, url: str, names: Mapping[str, str]) -> None:
    """For servers and their clients. `names`: of NameNodes."""
    folder.mkdir(exist_ok=True)
    here = dict.fromkeys(("address", "http.address", "ipc.address"), "127.0.0.1:0")
    said = {f"dfs.datanode.{name}": address for name, address in here.items()} | {
        "dfs.datanode.data.dir": str(folder / "blocks"),
        "dfs.replication": "1",
    }
    for file, found in {"core-site": {"fs.defaultFS": url}, "hdfs-site": said | dict(names)}.items():
        lines = [
            f"<property><name>{name}</name><value>{escape(value)}</value></property>"
            for name, value in found.items()
        ]
        (folder / f"{file}.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")


def _java(folder: Path) -> list[str]:
    [servers] = ensure_jars(print, [_SERVERS])
    jars = Path(pyspark.__file__).parent / "jars"
    classes = [folder, servers, *(jar for each in _ITS_CLIENT for jar in sorted(jars.glob(each)))]
    return [str(find_java()), "-Xmx256m", "-cp", ":".join(str(each) for each in classes)]


def _as_its_owner() -> dict[str, str]:
    """Not as its user, whom this process may be already."""
    return {name: value for name, value in os.environ.items() if name != "HADOOP_USER_NAME"}


def must_run(folder: Path, *words: str) -> None:
    """A class of Hadoop's to its end. Raises: CalledProcessError."""
    subprocess.run([*_java(folder), *words], check=True, capture_output=True, env=_as_its_owner())


@contextmanager
def running(folder: Path, *words: str) -> "Iterator[subprocess.Popen[bytes]]":
    """A class of Hadoop's, until the end or until somebody kills it."""
    process = subprocess.Popen(
        [*_java(folder), *words],
        cwd=folder,
        env=_as_its_owner(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def wait_for(url: str, settings: dict[str, str], processes: "Sequence[subprocess.Popen[bytes]]") -> None:
    """Until a file can be written; whoever comes may make folders then. Raises: AssertionError."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        alive = all(process.poll() is None for process in processes)
        assert alive and time.monotonic() < deadline, "HDFS does not start"
        try:
            HdfsStore(url, settings | {"dfs.client.failover.max.attempts": "1"}).put("ready", b"yes")
            break
        except BaseError:
            time.sleep(0.2)
    Client(url, settings).set_permission("/", 0o777)
