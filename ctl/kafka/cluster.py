"""A KRaft cluster of Apache Kafka in a directory: what it is made of, and how each of its nodes is started.

Every node is a broker and a controller, on loopback: without a password at its first listener, as `entry.py`
has it at a second one. Who starts the processes is somebody else: `commands/kafka.py` for people,
`bench/apache_kafka.py` for benchmarks and tests.
"""

import json
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from contracts.topic_policy import default_min_insync_replicas
from ctl.errors import CommandError, usage
from ctl.kafka.entry import LISTENER, Entry, add_user, ensure_files, listener_settings, mechanism_of
from ctl.kafka.jars import DEFAULT_VERSION, class_path, java_program, parse_version
from ctl.stack.layout import Layout
from runtime.process import write_file, write_json

BROKERS_MAX: Final = 9
_HOST: Final = "127.0.0.1"
_REPLICATION_FACTOR_MAX: Final = 3
_FORMAT_TIMEOUT_S: Final = 120
_CREDENTIALS: Final = "credentials"
_FORMAT_HEAP: Final = "256m"
_LOG4J: Final = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
"""For releases before 4; later ones take a level from the command line."""


class Node(NamedTuple):
    """One process of a cluster."""

    node_id: int
    port: int
    controller_port: int
    secured_port: int = 0
    """Of the second listener, if there is one."""

    @property
    def name(self) -> str:
        """The process's name, which also names its directory."""
        return f"kafka-{self.node_id}"


class Kept(NamedTuple):
    """What a directory remembers of its cluster."""

    version: str
    cluster_id: str
    brokers: int
    tls: bool = False
    sasl: str | None = None

    @property
    def entry(self) -> Entry:
        """What its second listener asks for."""
        return Entry(self.tls, None if self.sasl is None else mechanism_of(self.sasl))


class Wish(NamedTuple):
    """What a start asks for; None: as before."""

    brokers: int | None = None
    version: str | None = None
    tls: bool | None = None
    sasl: str | None = None


def kept(layout: Layout) -> Kept | None:
    """The cluster of the last start, None before the first. Raises: CommandError."""
    path = _file(layout)
    try:
        found = json.loads(path.read_text())
        return Kept(
            str(found["version"]),
            str(found["cluster_id"]),
            int(found["brokers"]),
            bool(found["tls"]),
            found["sasl"],
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error


def _file(layout: Layout) -> Path:
    return layout.data_dir / "kafka.json"


def chosen(before: Kept | None, wish: Wish) -> Kept:
    """What is to be started, from what is asked for and what was there before. Raises: CommandError."""
    wanted = wish.version or (before.version if before else DEFAULT_VERSION)
    count = (before.brokers if before else 1) if wish.brokers is None else wish.brokers
    tls = (before is not None and before.tls) if wish.tls is None else wish.tls
    sasl = mechanism_of(wish.sasl).value if wish.sasl else before and before.sasl
    try:
        parsed = parse_version(wanted)
    except ValueError as error:
        raise usage(f"--version: {error}") from None
    if not 1 <= count <= BROKERS_MAX:
        raise usage(f"--brokers: {count} is not a number from 1 to {BROKERS_MAX}")
    if before is None:
        drawn = new_cluster_id(uuid.uuid4())
        return Kept(wanted, drawn, count, tls, sasl)
    if count != before.brokers:
        raise usage(
            f"--brokers: the directory holds {before.brokers}, which are its controllers, too; name another "
            "directory for a cluster of another size"
        )
    if parsed < parse_version(before.version):
        raise usage(f"--version: the directory was written by {before.version}; Kafka does not go back")
    return Kept(wanted, before.cluster_id, count, tls, sasl)


def new_cluster_id(drawn: uuid.UUID) -> str:
    """As Kafka writes ids. Its tools take one that begins with a dash for an option: none does."""
    first, *others = drawn.bytes
    return urlsafe_b64encode(bytes([first & 0x7F, *others])).decode().rstrip("=")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCluster:
    """A cluster whose directory is prepared."""

    directory: Path
    version: str
    cluster_id: str
    nodes: tuple[Node, ...]
    entry: Entry

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of every broker."""
        return ",".join(f"{_HOST}:{node.port}" for node in self.nodes)

    @property
    def secured_bootstrap(self) -> str:
        """The same of the second listener."""
        return ",".join(f"{_HOST}:{node.secured_port}" for node in self.nodes)

    @property
    def credentials(self) -> Path:
        """What the second listener is entered with."""
        return self.directory / _CREDENTIALS

    def let_in(self) -> None:
        """Once it serves: have it know whom it is to let in. Raises: CommandError."""
        add_user(self.bootstrap, self.entry, self.credentials)

    def node_directory(self, node: Node) -> Path:
        """What one node keeps, and its working directory."""
        return self.directory / node.name

    def command(self, node: Node, heap: str) -> list[str]:
        """What starts a node, in its directory; the path tells people whose process it is."""
        return self._java(heap, "kafka.Kafka", str(self.node_directory(node) / "server.properties"))

    def _java(self, heap: str, main_class: str, *arguments: str) -> list[str]:
        flags = [f"-Xmx{heap}", f"-Xms{heap}", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
        flags += ["-Djava.net.preferIPv4Stack=true", "-Dlog4j2.level=WARN"]
        flags += ["-Dlog4j.configuration=file:log4j.properties"]
        return [java_program(), *flags, "-cp", class_path(self.version), main_class, *arguments]

    def _prepare(self, node: Node, settings: Mapping[str, str]) -> None:
        """Write a node's settings; format its storage, unless that was done."""
        directory = self.node_directory(node)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "log4j.properties").write_text(_LOG4J)
        merged = {**node_settings(node, self.nodes, self.entry), **settings}
        merged |= listener_settings(self.entry, self.credentials, f"../{_CREDENTIALS}")
        lines = [f"{name}={value}\n" for name, value in merged.items()]
        write_file(directory / "server.properties", "".join(lines).encode())
        if (directory / "logs" / "meta.properties").exists():
            return
        arguments = ("format", "--ignore-formatted", "-t", self.cluster_id, "-c", "server.properties")
        done = subprocess.run(
            self._java(_FORMAT_HEAP, "kafka.tools.StorageTool", *arguments),
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=_FORMAT_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise CommandError(f"Apache Kafka's storage cannot be formatted: {done.stdout}{done.stderr}")


def node_settings(node: Node, nodes: tuple[Node, ...], entry: Entry) -> dict[str, str]:
    """A node's server.properties. No topic is made by being asked for: that is the gateway's to decide."""
    factor = min(_REPLICATION_FACTOR_MAX, len(nodes))
    in_sync = default_min_insync_replicas(factor)
    clients = f"PLAINTEXT://{_HOST}:{node.port}"
    protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    if entry:
        clients += f",{LISTENER}://{_HOST}:{node.secured_port}"
        protocols += f",{LISTENER}:{entry.protocol}"
    voters = ",".join(f"{one.node_id}@{_HOST}:{one.controller_port}" for one in nodes)
    values: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": node.node_id,
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{clients},CONTROLLER://{_HOST}:{node.controller_port}",
        "advertised.listeners": clients,
        "listener.security.protocol.map": protocols,
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": "logs",  # relative: a Java properties file holds no path as it is
        "auto.create.topics.enable": "false",
        "default.replication.factor": factor,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": 0,
    }
    return {name: str(value) for name, value in values.items()}


def node_ports(layout: Layout, brokers: int, kind: str) -> dict[int, int]:
    """Where the brokers of the last start listen, by node id; `kind` is `kafka`, or `secured` for the second
    listener. Raises: CommandError."""
    try:
        ports = json.loads(layout.ports_file.read_text())
        return {node_id: int(ports[f"{kind}-{node_id}"]) for node_id in range(1, brokers + 1)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{layout.ports_file} cannot be read: {error}") from error


def addresses(layout: Layout, brokers: int, kind: str) -> str:
    """The same as HOST:PORT,... Raises: CommandError."""
    return ",".join(f"{_HOST}:{port}" for port in node_ports(layout, brokers, kind).values())


def prepared(
    layout: Layout,
    wish: Wish,
    *,
    settings: Mapping[str, str] | None = None,
) -> KafkaCluster:
    """A directory made ready to start: its ports are free ones, those of the last start where they are.

    Raises: CommandError.
    """
    if layout.cluster_file.exists():
        raise usage(f"{layout.data_dir} holds a stack of Portico's: name another directory")
    plan = chosen(kept(layout), wish)
    class_path(plan.version)  # before anything is written
    ids = range(1, plan.brokers + 1)
    kinds = ("kafka", "controller", "secured") if plan.entry else ("kafka", "controller")
    ports = layout.ports([f"{kind}-{node_id}" for node_id in ids for kind in kinds])
    nodes = tuple(Node(one, *(ports[f"{kind}-{one}"] for kind in kinds)) for one in ids)
    cluster = KafkaCluster(
        directory=layout.data_dir,
        version=plan.version,
        cluster_id=plan.cluster_id,
        nodes=nodes,
        entry=plan.entry,
    )
    write_json(_file(layout), plan._asdict())
    if plan.entry:
        ensure_files(cluster.credentials, plan.entry)
    for node in nodes:
        cluster._prepare(node, settings or {})
    return cluster
