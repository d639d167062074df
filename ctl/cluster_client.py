"""A cluster's brokers as operator tools use them: Kafka's own APIs, physical names, the deployment secret."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, Self, TypeVar

import msgspec
import typer
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v9.response import MetadataResponse
from kio.schema.types import TopicName

from contracts.specs import ClusterSpec, Engine
from contracts.upstream import UpstreamSecurity
from ctl.command import Made
from ctl.console_client import Console
from ctl.errors import CommandError, usage
from ctl.options import DEFAULT_DATA_DIR, DataDir
from ctl.stack.cluster import remembered
from ctl.stack.layout import Layout
from runtime.config import ConfigFault, parse_host_port
from runtime.kafka_client import KafkaConnection, KafkaUnavailable
from runtime.upstream import Upstream

Address = tuple[str, int]
T = TypeVar("T")

_CLIENT_ID: Final = "portico-tools"
_CONTROLLER_TRIES: Final = 20
_RETRY_S: Final = 0.25
_CONTROLLER_TIMEOUT_S: Final = 2.0


class Reach(NamedTuple):
    """Where a command finds its cluster."""

    data_dir: Path
    bootstrap: str | None
    secret_file: Path | None
    cluster_name: str | None = None
    """A registered Apache Kafka, instead."""

    @property
    def _backend(self) -> str | None:
        """The Apache Kafka that the stack uses. Raises: CommandError."""
        try:
            kept = remembered(Layout(self.data_dir))
        except ConfigFault as fault:
            raise CommandError("; ".join(fault.faults)) from fault
        return None if kept is None else kept.backend

    def opened(self) -> "Cluster":
        """Raises: CommandError."""
        if self.cluster_name is None:
            return Cluster(self.addresses(), self.secret())
        return registered(Console.of(self.data_dir), self.cluster_name, Layout(self.data_dir).credentials_dir)

    def addresses(self) -> list[Address]:
        """Brokers to begin with. Raises: CommandError."""
        if self.bootstrap is not None:
            return [_address(text) for text in self.bootstrap.split(",")]
        if self._backend is not None:
            return [_address(text) for text in self._backend.split(",")]
        path = Layout(self.data_dir).ports_file
        try:
            ports: dict[str, int] = json.loads(path.read_text())
        except FileNotFoundError:
            raise CommandError(
                f"no stack in {self.data_dir}: start one with `portico up`, name its --data-dir, or name "
                "brokers with --bootstrap HOST:PORT and --secret-file FILE"
            ) from None
        except (OSError, ValueError) as error:
            raise CommandError(f"{path} cannot be used ({error}): start the stack again") from error
        return [("127.0.0.1", port) for name, port in sorted(ports.items()) if name.startswith("broker-")]

    def secret(self) -> str | None:
        """The deployment's secret; None where the brokers want none. Raises: CommandError."""
        path = self.secret_file
        if path is None and self.bootstrap is None and self._backend is not None:
            return None
        if path is None:
            path = Layout(self.data_dir).secret_file
            if self.bootstrap is not None and not path.exists():
                return None
        try:
            return path.read_text().strip()
        except OSError as error:
            raise CommandError(f"the secret in {path} cannot be read: {error.strerror}") from error


Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", metavar="HOST:PORT[,...]", help="Brokers of the cluster, instead of the stack's own."
    ),
]
SecretFile = Annotated[
    Path | None, typer.Option("--secret-file", help="The deployment's secret, with --bootstrap.")
]


ClusterName = Annotated[
    str | None,
    typer.Option(
        "--cluster-name", metavar="CLUSTER", help="A registered Apache Kafka, as `cluster list` names it."
    ),
]


def _reach(
    bootstrap: Bootstrap = None,
    secret_file: SecretFile = None,
    cluster_name: ClusterName = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> Reach:
    if cluster_name is not None and bootstrap is not None:
        raise usage("--cluster-name and --bootstrap each name a cluster: give one")
    return Reach(data_dir, bootstrap, secret_file, cluster_name)


ClusterReach = Annotated[Reach, Made(_reach)]


def _address(text: str) -> Address:
    try:
        return parse_host_port(text.strip())
    except ValueError as error:
        raise usage(f"--bootstrap: {error}") from None


class Cluster:
    """Open connections to brokers, made as they are needed."""

    def __init__(
        self, known: Sequence[Address], secret: str | None, upstream: Upstream | None = None
    ) -> None:
        """`upstream` is the way into a cluster that is not ours."""
        self._known = list(known)
        self._secret = secret
        self._upstream = upstream
        self._connections: dict[Address, KafkaConnection] = {}
        self.addresses: dict[int, Address] = {}
        """Registered brokers by id, as of the last `metadata`."""
        self.controller_id = -1

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        for connection in self._connections.values():
            connection.close()

    async def metadata(self, topics: Sequence[str] | None = None) -> MetadataResponse:
        """The cluster and some topics, or all: as the controller knows them, if it answers soon.

        Other brokers are a moment behind; one that was paused, by as long as that. Raises: CommandError.
        """
        asked = None
        if topics is not None:
            asked = tuple(MetadataRequestTopic(name=TopicName(name)) for name in topics)
        request = MetadataRequest(
            topics=asked,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        answer: MetadataResponse
        answered, answer = await self._ask_anyone(request)
        self._take(answer)
        controller = self.addresses.get(self.controller_id)
        if controller is not None and controller != answered:
            with contextlib.suppress(KafkaUnavailable, TimeoutError):
                async with asyncio.timeout(_CONTROLLER_TIMEOUT_S):
                    answer = await self._call(controller, request, _CONTROLLER_TIMEOUT_S)
                self._take(answer)
        return answer

    def _take(self, answer: MetadataResponse) -> None:
        self.addresses = {int(one.node_id): (one.host, int(one.port)) for one in answer.brokers}
        self.controller_id = int(answer.controller_id)

    async def ask(self, node_id: int, request: Any, *, timeout_s: float = 30.0) -> Any:
        """Ask one broker. Raises: KafkaUnavailable, CommandError for one that is not registered."""
        if node_id not in self.addresses:
            await self.metadata([])
        if node_id not in self.addresses:
            raise CommandError(f"broker {node_id} is not registered: is it running?")
        return await self._call(self.addresses[node_id], request, timeout_s)

    async def ask_controller(
        self, request: Any, code_of: Callable[[Any], ErrorCode | None], *, timeout_s: float = 60.0
    ) -> Any:
        """Ask the controller, looking for it anew while `code_of` an answer says NOT_CONTROLLER.

        Raises: CommandError.
        """
        for _ in range(_CONTROLLER_TRIES):
            await self.metadata([])
            if self.controller_id in self.addresses:
                try:
                    answer = await self.ask(self.controller_id, request, timeout_s=timeout_s)
                except KafkaUnavailable as error:
                    raise CommandError(
                        f"the controller, broker {self.controller_id}, gave no answer: {error}"
                    ) from error
                if code_of(answer) is not ErrorCode.not_controller:
                    return answer
            await asyncio.sleep(_RETRY_S)
        raise CommandError("the cluster has no controller now: try again in a few seconds")

    async def _ask_anyone(self, request: Any) -> tuple[Address, Any]:
        """Who answered, and what."""
        addresses = [*self.addresses.values(), *self._known]
        failure: KafkaUnavailable | None = None
        for address in dict.fromkeys(addresses):
            try:
                return address, await self._call(address, request, 10.0)
            except KafkaUnavailable as error:
                failure = error
        raise CommandError(f"no broker answers: {failure}") from failure

    async def _call(self, address: Address, request: Any, timeout_s: float) -> Any:
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            connection = await KafkaConnection.open(
                *address, secret=self._secret, client_id=_CLIENT_ID, upstream=self._upstream
            )
            self._connections[address] = connection
        return await connection.call(request, timeout_s=timeout_s)


def registered(console: Console, name: str, credentials_dir: Path) -> Cluster:
    """An Apache Kafka as the console knows it, entered with this machine's files. Raises: CommandError."""
    told = console.get("brokers")
    found = next((one for one in told["clusters"] if one["cluster_id"] == name), None)
    if found is None or found["security"] is None:
        raise usage(f"--cluster-name: there is no Apache Kafka '{name}': see `portico cluster list`")
    if found["cause"] is not None:  # a stranger among others, whose topics are not ours to touch
        raise CommandError(f"cluster {name} cannot be used: {found['trouble']}")
    spec = ClusterSpec(
        revision=0,
        cluster_id=name,
        engine=Engine.APACHE,
        security=msgspec.convert(found["security"], UpstreamSecurity),
    )
    known = [(one["host"], one["port"]) for one in told["items"] if one["cluster_id"] == name]
    return Cluster(known, None, Upstream(spec, credentials_dir))


def with_cluster(reach: Reach, work: Callable[[Cluster], Awaitable[T]]) -> T:
    """Run `work` with a cluster and close it. Raises: CommandError."""

    async def run() -> T:
        async with reach.opened() as cluster:
            return await work(cluster)

    try:
        return asyncio.run(run())
    except KafkaUnavailable as error:
        raise CommandError(str(error)) from error


def refusal(subject: str, error_code: ErrorCode, message: str | None) -> CommandError:
    """The sentence for an item that the cluster refused."""
    return CommandError(f"{subject}: {message or error_code.name.upper()}")
