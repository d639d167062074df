"""What `portico up` can be told, and what it is by default (design: Command contract)."""

import os
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, cast

from contracts.server_names import parse_domain
from contracts.units import format_duration, parse_duration_ms
from contracts.usage_records import INTERVAL_MS_DEFAULT, INTERVAL_MS_MAX, INTERVAL_MS_MIN
from ctl.stack.cluster import remembered, settle
from ctl.stack.layout import Layout
from ctl.stack.metrics_plan import METRICS_DEFAULT, ports_needed
from ctl.stack.zookeeper import SESSION_TIMEOUT_MS_MAX, SESSION_TIMEOUT_MS_MIN
from gateway.shared_table import WORKERS_MAX
from master.quota.policies import POLICIES
from runtime.config import (
    ConfigFault,
    Resolved,
    Setting,
    environment,
    format_host_port,
    parse_host_port,
    read_toml,
    resolve,
)
from runtime.http_limits import parse_proxies
from runtime.redis_link import RedisUrl, parse_redis_url
from runtime.trace_settings import ENDPOINT, PER_SECOND_DEFAULT, PER_SECOND_MAX, trace_settings
from tenants.config import DELETION_GRACE_MS, REGION, parse_region
from tenants.rules.mail_addresses import fault_of_address
from tenants.rules.mail_settings import parse_smtp_url
from tenants.rules.oidc_settings import url_fault
from tenants.rules.prometheus_url import PrometheusUrl, parse_prometheus_url
from tenants.rules.vports import parse_vip
from tenants.store.database_url import DatabaseUrl


def _vports(text: str) -> tuple[int, int]:
    first, separator, last = text.partition("-")
    if not separator or not (first.isdigit() and last.isdigit()):
        raise ValueError(f"'{text}' is not FIRST-LAST")
    bounds = int(first), int(last)
    if not 1 <= bounds[0] <= bounds[1] <= 65535:
        raise ValueError(f"'{text}' is not a range of ports between 1 and 65535")
    return bounds


def _first_last(bounds: tuple[int, int]) -> str:
    return f"{bounds[0]}-{bounds[1]}"


def _metrics(text: str) -> tuple[str, int]:
    host, port = parse_host_port(text)
    if port + ports_needed(WORKERS_MAX) > 65536:
        raise ValueError(
            f"port {port} leaves no room: {ports_needed(WORKERS_MAX)} ports are needed from it on"
        )
    return host, port


def _collector(text: str) -> str:
    try:
        trace_settings({ENDPOINT: text})
    except ConfigFault as fault:
        raise ValueError(str(fault)) from fault
    return text


def _provider(text: str) -> str:
    fault = url_fault(text)
    if fault is not None:
        raise ValueError(f"'{text}' {fault}")
    return text


def _smtp(text: str) -> str:
    parse_smtp_url(text)
    return text


def _sender(text: str) -> str:
    if (fault := fault_of_address(text)) is not None:
        raise ValueError(f"'{text}' {fault}")
    return text


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise ValueError(f"'{text}' is not a number from 0 to 1")
    return share


def _console(text: str) -> tuple[str, int]:
    host, port = parse_host_port(text)
    if port == 0:
        raise ValueError("the console needs a port of its own, not 0")
    return host, port


def _count(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise ValueError(f"'{text}' is not a number from {low} to {high}")
        return int(text)

    return parse


def _minute_or_more(text: str) -> int:
    duration_ms = parse_duration_ms(text)
    if duration_ms < 60_000:
        raise ValueError(f"'{text}' is less than a minute")
    return duration_ms


def _vip(text: str) -> str:
    parse_vip(text, 1, 1)  # raises with the reason
    return text


def _policy(text: str) -> str:
    if text not in POLICIES:
        raise ValueError(f"'{text}' is not one of {', '.join(POLICIES)}")
    return text


def _zookeeper(text: str) -> str:
    addresses, slash, chroot = text.partition("/")
    for address in addresses.split(","):
        parse_host_port(address)  # raises with the reason
    if slash and (not chroot or "//" in text or text.endswith("/")):
        raise ValueError(f"'{slash + chroot}' is not a chroot")
    return text


def _ip_address(text: str) -> str:
    return str(ip_address(text.removeprefix("[").removesuffix("]")))


def _backend(text: str) -> str:
    addresses = [parse_host_port(part.strip()) for part in text.split(",")]  # raises with the reason
    if any(not host or port == 0 for host, port in addresses):
        raise ValueError(f"'{text}' is not HOST:PORT,... of brokers")
    return ",".join(format_host_port(*address) for address in addresses)


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError(f"'{text}' is not on or off")
    return text == "on"


def _on_off(value: bool) -> str:
    return "on" if value else "off"


def _file(text: str) -> str:
    """Whether it can be read is for the process to say that reads it, again and again. A link is not followed
    here: who exchanges files often does so by where a link points (certbot, a Secret of Kubernetes)."""
    return str(Path(text).expanduser().absolute())


def workers_default(cores: int | None) -> int:
    """One gateway process per core, as many as the table of connections holds."""
    return min(cores or 1, WORKERS_MAX)


def _address(value: tuple[str, int]) -> str:
    return format_host_port(*value)


BROKERS_MAX: Final = 9

SETTINGS: Final = (
    Setting("console", ("127.0.0.1", 8080), _console, "Where the console listens, HOST:PORT.", _address),
    Setting(
        "metrics",
        METRICS_DEFAULT,
        _metrics,
        "First of the ports with Prometheus metrics, HOST:PORT; port 0: any.",
        _address,
    ),
    Setting(
        "otlp_endpoint",
        None,
        _collector,
        "A collector of OpenTelemetry's traces, http://HOST:4318; without one nothing is traced.",
    ),
    Setting("traces_ratio", 1.0, _share, "The share of requests that is traced, 0 to 1."),
    Setting(
        "traces_per_second",
        PER_SECOND_DEFAULT,
        _count(1, PER_SECOND_MAX),
        "So many traced requests of an instance a second at most, at each gateway process.",
    ),
    Setting(
        "prometheus_dir",
        None,
        lambda text: str(Path(text).resolve()),
        "Where Prometheus finds targets.json and token; DATA/prometheus by default.",
    ),
    Setting(
        "series_prometheus",
        None,
        parse_prometheus_url,
        "A Prometheus that scrapes this stack, http(s)://[USER:PASSWORD@]HOST[:PORT]; for longer charts.",
    ),
    Setting(
        "database_url",
        None,
        DatabaseUrl.parse,
        "The control plane's Postgres, postgresql://USER:PASSWORD@HOST/DATABASE; default: a SQLite file.",
    ),
    Setting(
        "trusted_proxies",
        (),
        parse_proxies,
        "Proxies before the console whose X-Forwarded-For and -Proto are believed: addresses, CIDRs.",
        ",".join,
    ),
    Setting(
        "webhook_allow",
        (),
        parse_proxies,
        "Ranges that webhooks may call though they are not of the public internet: addresses, CIDRs.",
        ",".join,
    ),
    Setting(
        "oidc_issuer",
        None,
        _provider,
        "An identity provider by which people sign in to the console, https://HOST[/PATH].",
    ),
    Setting("oidc_client_id", None, str, "What the console is called there."),
    Setting("oidc_client_secret_file", None, _file, "Its secret there; without one PKCE alone proves it."),
    Setting("oidc_groups_claim", "groups", str, "The claim that tells somebody's groups."),
    Setting(
        "oidc_console_url",
        None,
        _provider,
        "Where browsers find the console, to come back to; http://CONSOLE by default.",
    ),
    Setting(
        "smtp_url",
        None,
        _smtp,
        "The server that takes e-mail about alarms, smtp(s)://[USER@]HOST[:PORT]; without one none is sent.",
    ),
    Setting("smtp_password_file", None, _file, "The password of USER there."),
    Setting("smtp_sender", None, _sender, "The address that mails are from."),
    Setting(
        "smtp_console_url",
        None,
        _provider,
        "Where links of mails lead: the console; http://CONSOLE by default.",
    ),
    Setting(
        "proxy_protocol_from",
        (),
        parse_proxies,
        "Load balancers before the vips that name their clients by PROXY protocol 2: addresses, CIDRs.",
        ",".join,
    ),
    Setting("tls_cert", None, _file, "The gateways' certificate with those above it, a PEM file."),
    Setting("tls_key", None, _file, "Its key, a PEM file without a passphrase."),
    Setting("tls_client_ca", None, _file, "Whose certificates clients show at `tls` listeners, a PEM file."),
    Setting(
        "sni_domain",
        None,
        parse_domain,
        "Serve all instances with TLS at one port, too, as <instance>.DOMAIN: the domain.",
    ),
    Setting("sni_port", 9093, _count(1, 65_535), "That port."),
    Setting(
        "sni_host", None, _ip_address, "Where it is bound; default: as the vips, a pool at every address."
    ),
    Setting("sni_cert", None, _file, "The certificate there, for *.DOMAIN, a PEM file; default: --tls-cert."),
    Setting("sni_key", None, _file, "Its key, a PEM file without a passphrase."),
    Setting("ckafka_region", REGION, parse_region, "The region that Tencent's SDK and tccli name."),
    Setting(
        "vip",
        "127.0.0.1",
        _vip,
        "Address of the instances: one, BIND=ADVERTISED, a CIDR, or 0.0.0.0=CIDR.",
    ),
    Setting("vports", (20000, 29999), _vports, "Ports that instances get, FIRST-LAST.", _first_last),
    Setting(
        "workers",
        workers_default(os.cpu_count()),
        _count(1, WORKERS_MAX),
        "Gateway processes; one per core by default.",
    ),
    Setting("quota_policy", "seed", _policy, "How rates are allotted: seed, capped, static or fair."),
    Setting("backend", None, _backend, "An Apache Kafka to use, HOST:PORT,...; default: brokers of our own."),
    Setting("brokers", None, _count(1, BROKERS_MAX), "Brokers; more than one need ZooKeeper."),
    Setting(
        "zookeeper", None, _zookeeper, "A running ZooKeeper, HOST:PORT or HOST:PORT/CHROOT; else its own."
    ),
    Setting(
        "redis_url",
        None,
        parse_redis_url,
        "A Redis that control processes share, redis://[:PASSWORD@]HOST:PORT/DB; none is needed.",
    ),
    Setting(
        "session_timeout_ms",
        6000,
        _count(SESSION_TIMEOUT_MS_MIN, SESSION_TIMEOUT_MS_MAX),
        "A broker silent for so long is dead: its partitions get other leaders.",
    ),
    Setting("replication_factor", None, _count(1, BROKERS_MAX), "Replicas of a partition; min(3, brokers)."),
    Setting("min_insync_replicas", None, _count(1, BROKERS_MAX), "Replicas that acks=all needs at least."),
    Setting(
        "hang_timeout_ms",
        30_000,
        _count(0, 3_600_000),
        "A process that gives no sign of life for so long is started again; 0: never.",
    ),
    Setting(
        "deletion_grace",
        DELETION_GRACE_MS,
        parse_duration_ms,
        "How long deleted instances can be taken back, such as 7d or 12h; 0: they are purged at once.",
        format_duration,
    ),
    Setting("report_period_ms", 1000, _count(1000, 10000), "How often brokers report traffic."),
    Setting(
        "pipeline",
        False,
        _switch,
        "Whether scheduled pipeline jobs run beside the stack: on or off.",
        _on_off,
    ),
    Setting(
        "pipeline_job_limit",
        3_600_000,
        _minute_or_more,
        "A scheduled pipeline job that runs longer, such as 1h, is ended; its next run goes on.",
        format_duration,
    ),
    Setting(
        "usage_interval_ms",
        INTERVAL_MS_DEFAULT,
        _count(INTERVAL_MS_MIN, INTERVAL_MS_MAX),
        "Usage is told once per so long.",
    ),
)


def plain(value: object) -> object:
    """For JSON, without secrets."""
    return str(value) if isinstance(value, DatabaseUrl | PrometheusUrl | RedisUrl) else value


def to_json(settings: Mapping[str, Resolved]) -> dict[str, dict[str, Any]]:
    """What the stack file tells of them."""
    return {name: {"value": plain(found.value), "origin": found.origin} for name, found in settings.items()}


def of_json(told: Mapping[str, Mapping[str, Any]]) -> dict[str, Resolved]:
    """Back from the stack file. Raises: KeyError when it is of another version."""
    return {each.name: Resolved(told[each.name]["value"], told[each.name]["origin"]) for each in SETTINGS}


def load(data_dir: Path, flags: Mapping[str, str | None]) -> dict[str, Resolved]:
    """The settings in force for a data directory. Raises: ConfigFault."""
    layout = Layout(data_dir)
    path = layout.settings_file
    values = resolve(SETTINGS, flags, environment(), read_toml(path), str(path))
    has = {name for name in ("tls_cert", "tls_key", "tls_client_ca") if values[name].value is not None}
    if has and not {"tls_cert", "tls_key"} <= has:
        raise ConfigFault(["--tls-cert and --tls-key go together, and --tls-client-ca with them"])
    if (values["oidc_issuer"].value is None) != (values["oidc_client_id"].value is None):
        raise ConfigFault(["--oidc-issuer and --oidc-client-id go together"])
    faults = _faults_of_names({name: found.value for name, found in values.items()})
    if faults:
        raise ConfigFault(faults)
    return settle(values, remembered(layout))


def _faults_of_names(values: Mapping[str, object]) -> list[str]:
    """What is wrong about the port that serves by names."""
    faults = []
    if (values["sni_cert"] is None) != (values["sni_key"] is None):
        faults.append("--sni-cert and --sni-key go together")
    if values["sni_domain"] is None:
        return [*faults, "--sni-cert needs --sni-domain"] if values["sni_cert"] is not None else faults
    if values["tls_cert"] is None:
        faults.append("--sni-domain needs --tls-cert and --tls-key")
    (first, last), port = cast(tuple[int, int], values["vports"]), cast(int, values["sni_port"])
    if first <= port <= last:
        faults.append(f"--sni-port {port} is one of the vports {first}-{last}")
    return faults
