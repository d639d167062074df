"""Hadoop's own NameNode and DataNode in processes of their own, from Maven Central and PySpark's jars."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

import pyspark
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
    [servers] = ensure_jars(print, [_SERVERS])
    jars = Path(pyspark.__file__).parent / "jars"
    classes = [folder, servers, *(jar for each in _ITS_CLIENT for jar in sorted(jars.glob(each)))]
    url = f"hdfs://127.0.0.1:{free_port()}"
    _settings(folder, url)
    java = [str(find_java()), "-Xmx256m", "-cp", ":".join(str(each) for each in classes)]
    package = "org.apache.hadoop.hdfs.server"
    subprocess.run(
        [*java, f"{package}.namenode.NameNode", "-format", "-nonInteractive"], check=True, capture_output=True
    )
    processes = [
        subprocess.Popen(
            [*java, f"{package}.{name}"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for name in ("namenode.NameNode", "datanode.DataNode")
    ]
    try:
        server = HdfsServer(url, folder)
        _wait_for(server, processes)
        yield server
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


def _settings(folder: Path, url: str) -> None:
    here = dict.fromkeys(("address", "http.address", "ipc.address"), "127.0.0.1:0")
    said = {f"dfs.datanode.{name}": address for name, address in here.items()} | {
        "dfs.datanode.data.dir": str(folder / "blocks"),
        "dfs.namenode.http-address": "127.0.0.1:0",
        "dfs.namenode.name.dir": str(folder / "names"),
        "dfs.permissions.enabled": "false",
        "dfs.replication": "1",
    }
    for file, found in {"core-site": {"fs.defaultFS": url}, "hdfs-site": said}.items():
        lines = [
            f"<property><name>{name}</name><value>{escape(value)}</value></property>"
            for name, value in found.items()
        ]
        (folder / f"{file}.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")


def _wait_for(server: HdfsServer, processes: "list[subprocess.Popen[bytes]]") -> None:
    """Until a file can be written. Raises: AssertionError."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        alive = all(process.poll() is None for process in processes)
        assert alive and time.monotonic() < deadline, "HDFS does not start"
        try:
            HdfsStore(server.root, {"dfs.client.failover.max.attempts": "1"}).put("ready", b"yes")
            return
        except BaseError:
            time.sleep(0.2)
