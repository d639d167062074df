"""Workers of Kafka Connect, distributed, that are killed and started again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from ctl.kafka.jars import DEFAULT_VERSION
from ctl.stack.layout import free_port
from tests.ecosystem.java_process import JavaProcess
from tests.foreign.maven import KAFKA, SIMPLE_LOGGER, Artifact, class_path, library

_MAIN: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
_START_S: Final = 120.0
_TASK_S: Final = 180.0
_JARS: Final = (
    Artifact(KAFKA, "connect-runtime"),
    Artifact(KAFKA, "connect-file"),
    Artifact(KAFKA, "connect-mirror"),
    Artifact("io.debezium", "debezium-connector-postgres", "3.3.0.Final"),
    SIMPLE_LOGGER,
)
DEBEZIUM_VERSION: Final = _JARS[3].version
_SETTINGS: Final = {
    "group.id": "connect",
    "exactly.once.source.support": "enabled",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "config.storage.replication.factor": "-1",
    "offset.storage.replication.factor": "-1",
    "status.storage.replication.factor": "-1",
    "offset.storage.partitions": "3",
    "status.storage.partitions": "3",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "session.timeout.ms": "10000",
    "scheduled.rebalance.max.delay.ms": "1000",
    "plugin.discovery": "service_load",
}
"""Topics of its own with as many replicas as the instance has; a worker that is gone is not waited for."""


def connect_class_path() -> str:
    """Connect, its connectors and Debezium's. Raises: CommandError."""
    return class_path(library(f"{DEFAULT_VERSION}-connect", _JARS))


class Worker(JavaProcess):
    """One of a group of workers, with a REST interface."""

    def __init__(self, bootstrap: str, directory: Path, name: str) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        settings = directory / f"{name}.properties"
        lines = _SETTINGS | {"bootstrap.servers": bootstrap, "listeners": f"http://{self.address}"}
        settings.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        super().__init__(connect_class_path(), (_MAIN, str(settings)), directory / f"{name}.log")

    def until_serving(self) -> None:
        """Its REST interface answers."""
        self.until("REST", lambda: self.ask("GET", "connectors") is not None, _START_S)

    def ask(self, method: str, path: str, body: Any = None) -> Any | None:
        """None when it does not answer, or says that it cannot just now."""
        try:
            answer = httpx.request(
                method, f"http://{self.address}/{path}", json=body, timeout=30, trust_env=False
            )
        except httpx.TransportError:
            return None
        return answer.json() if answer.is_success else None

    def put(self, connector: str, config: Mapping[str, str]) -> None:
        """Create a connector, or change it."""
        path = f"connectors/{connector}/config"
        self.until(f"creation of {connector}", lambda: self.ask("PUT", path, dict(config)) is not None, 60)

    def until_running(self, connector: str, *, not_at: str = "") -> str:
        """Its only task runs, at another worker than one; the address of that worker."""
        self.until(
            f"{connector} runs elsewhere than at {not_at}",
            lambda: (where := self.where(connector)) is not None and where != not_at,
            _TASK_S,
        )
        where = self.where(connector)
        assert where is not None
        return where

    def where(self, connector: str) -> str | None:
        """The address of the worker that runs its only task; None while none does."""
        status = self.ask("GET", f"connectors/{connector}/status") or {"tasks": []}
        failed = [task["trace"] for task in status["tasks"] if task["state"] == "FAILED"]
        assert not failed, failed[0]
        running = [task["worker_id"] for task in status["tasks"] if task["state"] == "RUNNING"]
        return running[0] if running else None
