"""HDFS whose two NameNodes take each other's place."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from ctl.stack.layout import free_port
from tests.pipeline.hdfs_server import (
    DATA_NODE,
    NAME_NODE,
    HdfsServer,
    must_run,
    running,
    wait_for,
    write_settings,
)

_SERVICE: Final = "lakes"
_NAMES: Final = ("a", "b")
_ADMIN: Final = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"
_TIMEOUT_S: Final = 60


class NameNodes:
    """Two, of which one is active."""

    def __init__(self, folder: Path, processes: ExitStack) -> None:
        self.server = HdfsServer(f"hdfs://{_SERVICE}", folder)
        self._folder, self._processes = folder, processes
        self._active = _NAMES[0]
        self._running = {name: self._started(name) for name in _NAMES}
        self._activate(self._active)

    def kill_active(self) -> None:
        """The other takes its place, and it comes back as the one that waits."""
        killed = self._active
        self._running[killed].kill()
        self._running[killed].wait()
        [self._active] = {*_NAMES} - {killed}
        self._activate(self._active)
        self._running[killed] = self._started(killed)

    def _started(self, name: str) -> "subprocess.Popen[bytes]":
        return self._processes.enter_context(
            running(self._folder, NAME_NODE, "-D", f"dfs.ha.namenode.id={name}")
        )

    def _activate(self, name: str) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                must_run(self._folder, _ADMIN, "-ns", _SERVICE, "-transitionToActive", "--forceactive", name)
                return
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


@contextmanager
def hdfs_name_nodes(folder: Path) -> Iterator[NameNodes]:
    """On free ports, with all that they keep below `folder`."""
    names = {
        "dfs.nameservices": _SERVICE,
        f"dfs.ha.namenodes.{_SERVICE}": ",".join(_NAMES),
        "dfs.ha.fencing.methods": "shell(/bin/true)",
        "dfs.ha.tail-edits.period": "1s",
        "dfs.namenode.safemode.extension": "0",  # or who takes over at once would take no changes for 30 s
        "dfs.namenode.shared.edits.dir": (folder / "edits").as_uri(),
        f"dfs.client.failover.proxy.provider.{_SERVICE}": (
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        ),
    }
    for name in _NAMES:
        names[f"dfs.namenode.rpc-address.{_SERVICE}.{name}"] = f"127.0.0.1:{free_port()}"
        names[f"dfs.namenode.http-address.{_SERVICE}.{name}"] = f"127.0.0.1:{free_port()}"
        names[f"dfs.namenode.name.dir.{_SERVICE}.{name}"] = str(folder / f"names-{name}")
    write_settings(folder, f"hdfs://{_SERVICE}", names)
    first, second = _NAMES
    must_run(folder, NAME_NODE, "-D", f"dfs.ha.namenode.id={first}", "-format", "-nonInteractive")
    shutil.copytree(folder / f"names-{first}", folder / f"names-{second}")
    with ExitStack() as processes:
        found = NameNodes(folder, processes)
        data_node = processes.enter_context(running(folder, DATA_NODE))
        wait_for(found.server.root, names, [data_node])
        yield found
