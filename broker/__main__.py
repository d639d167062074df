"""`python -m broker`: one broker process."""

import argparse
import asyncio
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin, get_type_hints

from broker.app import Broker
from broker.cluster.membership import BrokerIdTaken, ForeignCluster
from broker.config import BrokerConfig
from broker.log.errors import LogDirectoryUnusable, StorageFailed
from broker.metadata.znodes import ZnodeDamaged
from broker.monitoring.readiness import unready
from contracts import invariants
from contracts.tree import TreeUnavailable
from runtime import logs, process
from runtime.config import environment, parse_host_port
from runtime.life import LIFE
from runtime.trace_start import tracing_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.registry import Collector

_START_FAILURES: Final = (
    OSError,
    LogDirectoryUnusable,
    StorageFailed,
    BrokerIdTaken,
    ForeignCluster,
    TreeUnavailable,
    ZnodeDamaged,
)

_IN_OTHER_WORDS: Final = frozenset(
    {"listen_host", "listen_port", "advertised_host", "advertised_port", "control_url", "secret"}
)
_DEFAULTS: Final = {
    field.name: field.default
    for field in fields(BrokerConfig)
    if field.default is not MISSING and field.name not in _IN_OTHER_WORDS
}
_SETTINGS: Final = {name: of for name, of in get_type_hints(BrokerConfig).items() if name in _DEFAULTS}
"""Each is an option of its name; `BrokerConfig` says what it means."""


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    about = "Portico's built-in Kafka broker; broker/config.py says what its settings mean"
    parser = argparse.ArgumentParser(prog="python -m broker", description=about)
    parser.add_argument("--node-id", type=int, default=1)
    parser.add_argument("--cluster-id", default="portico")
    parser.add_argument("--data-dir", type=Path, required=True, help="everything the broker keeps")
    parser.add_argument("--listen", default="127.0.0.1:9092", metavar="HOST:PORT", help="port 0 takes any")
    parser.add_argument("--advertised", metavar="HOST:PORT", help="what clients are told; default: --listen")
    parser.add_argument("--control", metavar="URL", help="the control plane; without it a Kafka of its own")
    parser.add_argument("--secret-file", type=Path, help="the deployment's secret")
    parser.add_argument("--run-file", type=Path, help="written when the broker serves")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve Prometheus metrics")
    parser.add_argument("--log-json", action="store_true", default=None)
    for name, of in _SETTINGS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **_option(of), default=_DEFAULTS[name])
    return parser.parse_args(arguments)


def _option(of: Any) -> dict[str, Any]:
    """How a setting of a type is read."""
    if of is bool:
        return {"action": argparse.BooleanOptionalAction}
    if get_origin(of) is tuple:
        return {"type": get_args(of)[0], "nargs": "+"}
    return {"type": next(part for part in (*get_args(of), of) if part is not NoneType)}


def _config(options: argparse.Namespace) -> BrokerConfig:
    """The settings. Raises: SystemExit with one sentence per fault."""
    try:
        host, port = parse_host_port(options.listen)
        advertised = (None, None) if options.advertised is None else parse_host_port(options.advertised)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    settings = {name: getattr(options, name) for name in _SETTINGS}
    config = BrokerConfig(
        node_id=options.node_id,
        cluster_id=options.cluster_id,
        data_dir=options.data_dir,
        listen_host=host,
        listen_port=port,
        advertised_host=advertised[0],
        advertised_port=advertised[1],
        control_url=options.control,
        secret=process.read_secret(options.secret_file),
        **settings | {"log_dirs": tuple(settings["log_dirs"])},
    )
    faults = config.faults()
    if faults:
        raise SystemExit("; ".join(faults))
    return config


async def _serve(config: BrokerConfig, options: argparse.Namespace) -> None:
    serves = asyncio.Event()
    tracing = tracing_of(environment(), "broker", f"broker-{config.node_id}")
    try:
        broker = Broker(config)
        if tracing is not None:
            from broker.requests.tracing import BrokerTraces  # imports OpenTelemetry

            broker.server.traces = BrokerTraces(tracing, config.node_id)
        spans = () if tracing is None else (tracing.collector,)
        metrics = _serve_metrics(broker, options.metrics, config.secret, serves, spans)
        port = await broker.start()
    except _START_FAILURES as error:
        raise SystemExit(f"the broker cannot start: {error}") from error
    try:
        if options.run_file is not None:
            process.write_run_file(options.run_file, {"node_id": config.node_id, "port": port, **metrics})
        serves.set()
        LIFE.serving()
        await asyncio.Event().wait()
    finally:
        await broker.stop()
        if tracing is not None:
            await asyncio.to_thread(tracing.close)


def _serve_metrics(
    broker: Broker,
    address: str | None,
    secret: str | None,
    serves: asyncio.Event,
    spans: "Iterable[Collector]",
) -> dict[str, Any]:
    """What the run file says of them."""
    from runtime import metrics

    if address is None:
        return metrics.facts(None)
    host, port = parse_host_port(address)
    endpoint = metrics.serve(
        host,
        port,
        secret,
        lambda: unready(broker.metadata, broker.config.node_id, serves=serves.is_set()),
        collectors=[broker.metrics, broker.group_lag, *spans],
    )
    return metrics.facts(endpoint)


def main(arguments: list[str] | None = None) -> None:
    """Run until a signal comes."""
    options = _arguments(arguments)
    logs.configure(f"broker-{options.node_id}", json=options.log_json)
    config = _config(options)
    invariants.check_if_asked(environment())
    process.run(lambda: _serve(config, options))


if __name__ == "__main__":
    main(sys.argv[1:])
