"""Flink's sink, exactly once, whose task manager is killed."""

from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ctl.stack.layout import free_port
from ctl.stack.zookeeper import listens
from tests.ecosystem.certificate import Part, holds
from tests.ecosystem.java_process import JavaProcess
from tests.ecosystem.neighbour import beside
from tests.ecosystem.reading import Reader
from tests.foreign.maven import COMPILER, SIMPLE_LOGGER, Artifact, class_path, compile_classes, library
from tests.integration.stack import Stack

_FLINK: Final = "org.apache.flink"
_RUNTIME: Final = f"{_FLINK}.runtime"
_VERSION: Final = "2.2.1"
_CONNECTOR_VERSION: Final = "5.0.0-2.2"
_JARS: Final = (
    *(
        Artifact(_FLINK, name, _VERSION)
        for name in ("flink-clients", "flink-connector-base", "flink-connector-datagen")
    ),
    Artifact(_FLINK, "flink-connector-kafka", _CONNECTOR_VERSION),
    SIMPLE_LOGGER,
    COMPILER,
)
_SOURCE: Final = Path(__file__).parent / "java" / "portico" / "ExactlyOnceJob.java"
_RECORDS: Final = 20_000
_RECORDS_PER_S: Final = 500
_KILLS: Final = 2
_OPEN: Final = tuple(
    f"--add-opens=java.base/{name}=ALL-UNNAMED"
    for name in ("java.lang", "java.util", "java.net", "java.time")
)


def _configured(directory: Path, port: int) -> Path:
    """Where Flink's configuration is: one task manager with two slots, checkpoints each second."""
    settings = {
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.rpc.port": free_port(),
        "jobmanager.bind-host": "127.0.0.1",
        "rest.port": port,
        "rest.address": "127.0.0.1",
        "blob.server.port": free_port(),
        "taskmanager.host": "127.0.0.1",
        "taskmanager.bind-host": "127.0.0.1",
        "taskmanager.numberOfTaskSlots": 2,
        "taskmanager.cpu.cores": 1.0,
        "taskmanager.memory.task.heap.size": "192m",
        "taskmanager.memory.task.off-heap.size": "0m",
        "taskmanager.memory.framework.heap.size": "64m",
        "taskmanager.memory.framework.off-heap.size": "64m",
        "taskmanager.memory.jvm-metaspace.size": "128m",
        "taskmanager.memory.jvm-overhead.min": "128m",
        "taskmanager.memory.jvm-overhead.max": "128m",
        "taskmanager.memory.managed.size": "16m",
        "taskmanager.memory.network.min": "32m",
        "taskmanager.memory.network.max": "32m",
        "parallelism.default": 2,
        "heartbeat.interval": "1 s",
        "heartbeat.timeout": "6 s",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1000,
        "restart-strategy.fixed-delay.delay": "1 s",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"file://{directory / 'checkpoints'}",
    }
    configuration = directory / "configuration"
    configuration.mkdir()
    (configuration / "config.yaml").write_text(
        "".join(f"{key}: {value}\n" for key, value in settings.items())
    )
    return configuration


def _restored(port: int) -> int:
    """How often the only job has gone on from a checkpoint."""
    rest = f"http://127.0.0.1:{port}/jobs"
    (job,) = httpx.get(rest, timeout=30, trust_env=False).json()["jobs"]
    told = httpx.get(f"{rest}/{job['id']}/checkpoints", timeout=30, trust_env=False).json()
    return int(told["counts"]["restored"])


@pytest.mark.ecosystem
@pytest.mark.timeout(1200)
def test_exactly_once_sink(stack: Stack, tmp_path: Path) -> None:
    """Each number is committed once, though the task manager that writes is killed."""
    jars = library(f"flink-{_VERSION}", _JARS)
    classes = tmp_path / "classes"
    compile_classes(jars, _SOURCE, classes)
    path = class_path(classes, jars)
    bootstrap = stack.create_instance("flink")["bootstrap_servers"]
    beside_it = stack.create_instance("beside-flink")["bootstrap_servers"]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("numbers", 3)])["numbers"].result(30)
    port = free_port()
    directory = _configured(tmp_path, port)
    configuration = ("--configDir", str(directory))

    def process(name: str, *main: str) -> JavaProcess:
        return JavaProcess(path, main, tmp_path / f"{name}.log", flags=_OPEN)

    manager = process(
        "job-manager", f"{_RUNTIME}.entrypoint.StandaloneSessionClusterEntrypoint", *configuration
    )
    tasks = process("task-manager", f"{_RUNTIME}.taskexecutor.TaskManagerRunner", *configuration)
    job = process(
        *("job", "portico.ExactlyOnceJob", str(directory), bootstrap, "numbers"),
        *(str(_RECORDS), str(_RECORDS_PER_S)),
    )
    with (
        beside(beside_it, ("numbers",), "flink"),
        Reader(bootstrap, "numbers") as reader,
        manager,
        tasks,
        ExitStack() as later,
    ):
        manager.until("its REST interface", lambda: listens("127.0.0.1", port), 60)
        later.enter_context(job)
        for _ in range(_KILLS):
            before = len(reader.read)
            reader.until(lambda read, before=before: len(read) >= before + 1500, 180)  # type: ignore[misc]
            restored = _restored(port)
            tasks.kill()
            tasks.start()
            job.until("it goes on", lambda been=restored: _restored(port) > been, 120)  # type: ignore[misc]
        reader.until(lambda read: len(read) >= _RECORDS, 240)
        assert job.until_ended(120) == 0, job.end()
        reader.to_the_end()
    assert sorted(int(value or b"") for _, value in reader.read) == list(range(_RECORDS))
    holds(
        Part.FLINK,
        ran=f"Flink {_VERSION}, Kafka sink {_CONNECTOR_VERSION} with `EXACTLY_ONCE`",
        records=_RECORDS,
        killed=f"the task manager, {_KILLS} times",
        held="each record committed once",
    )
