"""How each process of a stack is started: its arguments from settings, ports and the data directory."""

import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from broker.config import BrokerConfig
from ctl.errors import CommandError
from ctl.installation import INSTALL_PIPELINE
from ctl.stack.children import ChildSpec, module
from ctl.stack.layout import CONSOLE_VARIABLES, Layout
from ctl.stack.metrics_plan import planned_port
from ctl.stack.zookeeper import is_installed, is_serving, server_command
from runtime.config import ENVIRONMENT_PREFIX, Resolved, format_host_port
from runtime.redis_link import VARIABLE as REDIS_URL
from runtime.redis_link import RedisUrl
from runtime.trace_settings import ENDPOINT, PER_SECOND, RATIO, SAMPLER
from tenants.rules.prometheus_url import PrometheusUrl
from tenants.rules.vports import parse_vip, wildcard_cidr
from tenants.store.database_url import DatabaseUrl

CLUSTER_ID: Final = "builtin-1"
APACHE_ID: Final = "apache-1"
DATABASE_URL: Final = ENVIRONMENT_PREFIX + "DATABASE_URL"
SERIES_PROMETHEUS: Final = ENVIRONMENT_PREFIX + "SERIES_PROMETHEUS"
_LOOPBACK: Final = "127.0.0.1"
_SMTP: Final = ("url", "password_file", "sender", "console_url")


def broker_name(node_id: int) -> str:
    """The process's name, which also names its port and its run file."""
    return f"broker-{node_id}"


def _options(values: Mapping[str, object]) -> list[str]:
    """As a command line names them; what is None is left to the process."""
    given = ((name, value) for name, value in values.items() if value is not None)
    return [text for name, value in given for text in (f"--{name.replace('_', '-')}", str(value))]


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
        prometheus: PrometheusUrl | None = self._value("series_prometheus")
        database: DatabaseUrl | None = self._value("database_url")
        variables = self._of_traces()
        if redis is not None:
            variables[REDIS_URL] = redis.text
        if prometheus is not None:
            variables[SERIES_PROMETHEUS] = prometheus.text
        if database is not None:
            variables[DATABASE_URL] = database.url
        own = {
            "data_dir": self._layout.data_dir,
            "console": format_host_port(host, port),
            "internal": f"{_LOOPBACK}:{self._ports['internal']}",
            "metrics": self._metrics("control"),
            "vports": f"{first}-{last}",
            "deletion_grace_ms": self._value("deletion_grace"),
            "trusted_proxies": ",".join(self._value("trusted_proxies")),
            "webhook_allow": ",".join(self._value("webhook_allow")),
            "zookeeper": self._zookeeper,
            "tls_cert": self._value("tls_cert"),
            **self._oidc(),
            **self._mail(),
            **self._names("sni_domain", "sni_port"),
        }
        same = "vip quota_policy report_period_ms usage_interval_ms ckafka_region session_timeout_ms backend"
        shared = {each: self._value(each) for each in same.split()}
        return module("control", "ctl.control", *_options(shared | own), variables=variables)

    def _oidc(self) -> dict[str, object]:
        """Who signs people in."""
        if self._value("oidc_issuer") is None:
            return {}
        names = "issuer client_id client_secret_file groups_claim console_url"
        return {f"oidc_{each}": self._value(f"oidc_{each}") for each in names.split()}

    def _mail(self) -> dict[str, object]:
        """What takes e-mail about alarms."""
        if self._value("smtp_url") is None:
            return {}
        return {f"smtp_{each}": self._value(f"smtp_{each}") for each in _SMTP}

    def broker(self, node_id: int) -> ChildSpec:
        """One broker. Settings of ours that are its own, too, have the same names."""
        name = broker_name(node_id)
        shared = {
            each.name: self._value(each.name) for each in fields(BrokerConfig) if each.name in self._settings
        }
        own = {
            "node_id": node_id,
            "cluster_id": CLUSTER_ID,
            "data_dir": self._layout.broker_dir(node_id),
            "listen": f"{_LOOPBACK}:{self._ports[name]}",
            "zookeeper": self._zookeeper,
            "default_replication_factor": self._value("replication_factor"),
        }
        return self._served(name, "broker", shared | own)

    def gateway(self, number: int, take_over: int | None = None) -> ChildSpec:
        """One gateway worker. `take_over` is the process id of the one whose listeners it goes on with."""
        name = f"gateway-{number}"
        directory = self._layout.gateway_dir
        own = {
            "name": name,
            "take_over": take_over,
            "state_dir": directory / name,
            "credentials_dir": self._layout.credentials_dir,
            "shared_table": directory / "connections.table",
            "wildcard_for": wildcard_cidr(self._value("vip")),
            "proxy_protocol_from": ",".join(self._value("proxy_protocol_from")),
            **{name: self._value(name) for name in ("tls_cert", "tls_key", "tls_client_ca")},
            **self._names("sni_domain", "sni_port", "sni_cert", "sni_key"),
        }
        if self._value("sni_domain") is not None:
            pool = parse_vip(self._value("vip"), *self._value("vports"))
            own["sni_host"] = self._value("sni_host") or pool.bind_host
        return self._served(name, "gateway", own)

    def _names(self, *names: str) -> dict[str, object]:
        """Settings of the port that serves by names, where there is one."""
        has = self._value("sni_domain") is not None
        return {name: self._value(name) if has else None for name in names}

    def pipeline(self) -> ChildSpec:
        """The runner of the pipeline's schedules. Raises: CommandError where Spark is not installed."""
        if not is_installed():
            raise CommandError(f"scheduled jobs need Spark: {INSTALL_PIPELINE}")
        serve = ("-m", "runtime.start", "ctl.main", "pipeline", "schedule", "serve")
        limit = f"{self._value('pipeline_job_limit')}ms"
        command = (sys.executable, *serve, "--data-dir", str(self._layout.data_dir), "--job-limit", limit)
        # A console that somebody's shell names is another one: this is for the stack that it runs beside.
        return ChildSpec("pipeline", command, variables=dict.fromkeys(CONSOLE_VARIABLES, ""))

    def _served(self, name: str, python_module: str, own: Mapping[str, object]) -> ChildSpec:
        """A process that follows the control plane."""
        common = {
            "control": self._internal_url,
            "secret_file": self._layout.secret_file,
            "run_file": self._layout.run_file(name),
            "metrics": self._metrics(name),
        }
        return module(name, python_module, *_options({**own, **common}), variables=self._of_traces())

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

    def _metrics(self, name: str) -> str:
        host, first = self._value("metrics")
        return format_host_port(host, planned_port(first, name))
