"""How each process of a stack is started: its arguments from settings, ports and the data directory."""

from collections.abc import Mapping
from typing import Any, Final

from ctl.stack.children import ChildSpec, module
from ctl.stack.layout import Layout
from ctl.stack.metrics_plan import planned_port
from ctl.stack.zookeeper import is_serving, server_command
from runtime.config import ENVIRONMENT_PREFIX, Resolved, format_host_port
from runtime.redis_link import VARIABLE as REDIS_URL
from runtime.redis_link import RedisUrl
from runtime.trace_settings import ENDPOINT, PER_SECOND, RATIO, SAMPLER
from tenants.config import DatabaseUrl

CLUSTER_ID: Final = "builtin-1"
APACHE_ID: Final = "apache-1"
DATABASE_URL: Final = ENVIRONMENT_PREFIX + "DATABASE_URL"
_LOOPBACK: Final = "127.0.0.1"


def broker_name(node_id: int) -> str:
    """The process's name, which also names its port and its run file."""
    return f"broker-{node_id}"


class Processes:
    """Specifications of all children."""

    def __init__(
        self,
        layout: Layout,
        settings: Mapping[str, Resolved],
        ports: Mapping[str, int],
        zookeeper: str | None,
    ) -> None:
        """`zookeeper` is the address of the brokers' metadata; None: the only broker keeps it itself."""
        self._layout = layout
        self._settings = settings
        self._ports = ports
        self._zookeeper = zookeeper
        self._internal_url = f"http://{_LOOPBACK}:{ports['internal']}"

    def _value(self, name: str) -> Any:
        return self._settings[name].value

    def zookeeper(self) -> ChildSpec:
        """ZooKeeper's server. Raises: CommandError when it is not installed."""
        directory, port = self._layout.zookeeper_dir, self._ports["zookeeper"]
        command = server_command(directory, port)
        return ChildSpec("zookeeper", command, directory, lambda: is_serving(_LOOPBACK, port))

    def control(self) -> ChildSpec:
        """Control plane and quota master."""
        host, port = self._value("console")
        first, last = self._value("vports")
        redis: RedisUrl | None = self._value("redis_url")
        database: DatabaseUrl | None = self._value("database_url")
        variables = self._of_traces()
        if redis is not None:
            variables[REDIS_URL] = redis.text
        if database is not None:
            variables[DATABASE_URL] = database.url
        return module(
            "control",
            "ctl.control",
            *("--data-dir", str(self._layout.data_dir), "--console", format_host_port(host, port)),
            *("--internal", f"{_LOOPBACK}:{self._ports['internal']}", "--vip", str(self._value("vip"))),
            *("--metrics", self._metrics("control")),
            *("--vports", f"{first}-{last}", "--quota-policy", self._value("quota_policy")),
            *("--report-period-ms", str(self._value("report_period_ms"))),
            *("--deletion-grace-ms", str(self._value("deletion_grace"))),
            *("--usage-interval-ms", str(self._value("usage_interval_ms"))),
            *("--trusted-proxies", ",".join(self._value("trusted_proxies"))),
            *("--ckafka-region", self._value("ckafka_region")),
            *(("--zookeeper", self._zookeeper) if self._zookeeper else ()),
            *("--session-timeout-ms", str(self._value("session_timeout_ms"))),
            *(("--backend", self._value("backend")) if self._value("backend") else ()),
            variables=variables,
        )

    def broker(self, node_id: int) -> ChildSpec:
        """One broker."""
        name = broker_name(node_id)
        return module(
            name,
            "broker",
            *("--node-id", str(node_id), "--cluster-id", CLUSTER_ID),
            *("--data-dir", str(self._layout.broker_dir(node_id))),
            *("--listen", f"{_LOOPBACK}:{self._ports[name]}"),
            *("--report-period-ms", str(self._value("report_period_ms"))),
            *(("--zookeeper", self._zookeeper) if self._zookeeper else ()),
            *("--session-timeout-ms", str(self._value("session_timeout_ms"))),
            *("--default-replication-factor", str(self._value("replication_factor"))),
            *("--min-insync-replicas", str(self._value("min_insync_replicas"))),
            *self._common(name),
            variables=self._of_traces(),
        )

    def gateway(self, number: int) -> ChildSpec:
        """One gateway worker."""
        name = f"gateway-{number}"
        directory = self._layout.gateway_dir
        return module(
            name,
            "gateway",
            *("--name", name, "--state-dir", str(directory / name)),
            *("--shared-table", str(directory / "connections.table")),
            *("--proxy-protocol-from", ",".join(self._value("proxy_protocol_from"))),
            *self._common(name),
            variables=self._of_traces(),
        )

    def _of_traces(self) -> dict[str, str]:
        """In OpenTelemetry's own words; without an endpoint of ours those of our environment hold."""
        endpoint = self._value("otlp_endpoint")
        if endpoint is None:
            return {}
        return {
            ENDPOINT: endpoint,
            SAMPLER: "parentbased_traceidratio",
            RATIO: str(self._value("traces_ratio")),
            PER_SECOND: str(self._value("traces_per_second")),
        }

    def _common(self, name: str) -> tuple[str, ...]:
        return (
            *("--control", self._internal_url, "--secret-file", str(self._layout.secret_file)),
            *("--run-file", str(self._layout.run_file(name)), "--metrics", self._metrics(name)),
        )

    def _metrics(self, name: str) -> str:
        host, first = self._value("metrics")
        return format_host_port(host, planned_port(first, name))
