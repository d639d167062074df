"""`python -m gateway`: one worker process. The supervisor starts as many as there are cores to use."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from contracts.server_names import NamedPort, parse_domain
from gateway.certificates import TlsFiles
from gateway.config import GatewayConfig
from runtime import logs, process
from runtime.config import parse_host_port
from runtime.http_limits import parse_proxies


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gateway", description=__doc__)
    parser.add_argument("--name", default="gateway-0", help="gateway-<number>, unique on the machine")
    parser.add_argument("--control", metavar="URL", help="internal address of the control plane")
    parser.add_argument(
        "--specs", metavar="FILE", type=Path, help="serve these specs, without a control plane"
    )
    parser.add_argument("--secret-file", metavar="FILE", type=Path, help="the deployment's secret")
    parser.add_argument("--state-dir", metavar="DIR", type=Path, help="where the last specs are kept")
    parser.add_argument("--run-file", metavar="FILE", type=Path, help="written when the worker runs")
    parser.add_argument(
        "--credentials-dir", metavar="DIR", type=Path, help="credentials of clusters of Apache Kafka"
    )
    parser.add_argument("--metrics", metavar="HOST:PORT", type=_host_port, help="serve /metrics there")
    parser.add_argument(
        "--shared-table", metavar="FILE", type=Path, help="connection counts over all workers"
    )
    parser.add_argument(
        "--take-over", metavar="PID", type=int, help="go on with the listening sockets of this worker"
    )
    parser.add_argument(
        "--drain-ms",
        metavar="MS",
        type=int,
        default=10_000,
        help="when replaced, close idle clients over so long",
    )
    parser.add_argument(
        "--wildcard-for",
        metavar="CIDR,...",
        type=_networks,
        default=(),
        help="vips that share one socket a port, bound to every address",
    )
    parser.add_argument(
        "--proxy-protocol-from",
        metavar="CIDR,...",
        type=_networks,
        default=(),
        help="load balancers that send a PROXY header of version 2",
    )
    parser.add_argument("--tls-cert", metavar="FILE", type=Path, help="certificate of vports with TLS, PEM")
    parser.add_argument("--tls-key", metavar="FILE", type=Path, help="its key")
    parser.add_argument("--tls-client-ca", metavar="FILE", type=Path, help="whose certificates clients show")
    parser.add_argument(
        "--sni-domain",
        metavar="DOMAIN",
        type=_domain,
        help="serve all instances with TLS at one port, as <instance>.DOMAIN",
    )
    parser.add_argument("--sni-port", metavar="PORT", type=_port, default=9093, help="that port")
    parser.add_argument("--sni-host", metavar="ADDRESS", default="127.0.0.1", help="where it is bound")
    parser.add_argument("--sni-cert", metavar="FILE", type=Path, help="its certificate, PEM; else --tls-cert")
    parser.add_argument("--sni-key", metavar="FILE", type=Path, help="its key")
    given = parser.parse_args(argv)
    if (given.sni_cert is None) != (given.sni_key is None):
        parser.error("--sni-cert and --sni-key go together")
    if (given.tls_cert is None) != (given.tls_key is None) or (given.tls_client_ca and not given.tls_cert):
        parser.error("--tls-cert and --tls-key go together, and --tls-client-ca with them")
    return given


def _host_port(text: str) -> tuple[str, int]:
    try:
        return parse_host_port(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _domain(text: str) -> str:
    try:
        return parse_domain(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65_536):
        raise argparse.ArgumentTypeError(f"'{text}' is no port")
    return int(text)


def _networks(text: str) -> tuple[str, ...]:
    try:
        return parse_proxies(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def main(argv: Sequence[str]) -> None:
    """Run a worker until SIGTERM or SIGINT."""
    given = _arguments(argv)
    config = GatewayConfig(
        name=given.name,
        control_url=given.control,
        specs_file=given.specs,
        secret_file=given.secret_file,
        state_dir=given.state_dir,
        run_file=given.run_file,
        credentials_dir=given.credentials_dir,
        metrics=given.metrics,
        shared_table=given.shared_table,
        take_over=given.take_over,
        drain_ms=given.drain_ms,
        wildcard_for=given.wildcard_for,
        proxy_protocol_from=given.proxy_protocol_from,
        tls=TlsFiles(given.tls_cert, given.tls_key, given.tls_client_ca) if given.tls_cert else None,
        named_port=NamedPort(given.sni_domain, given.sni_port, given.sni_host) if given.sni_domain else None,
        named_tls=TlsFiles(given.sni_cert, given.sni_key, given.tls_client_ca) if given.sni_cert else None,
    )
    faults = config.faults()
    if faults:
        sys.exit("python -m gateway: " + "; ".join(faults))
    logs.configure(config.name)
    # Imported here so that a wrong command line answers at once.
    from gateway.app import serve

    process.run(lambda: serve(config))


if __name__ == "__main__":
    main(sys.argv[1:])
