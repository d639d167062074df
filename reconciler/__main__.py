"""`python -m reconciler`: keeps KafkaInstance and KafkaTopic objects (docs/kubernetes.md)."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kopf

from reconciler.console import Console
from reconciler.handlers import GROUP, register
from reconciler.reconcile import Reconciler
from runtime import process
from runtime.config import format_host_port, parse_host_port
from runtime.logs import configure


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The process's options."""
    parser = argparse.ArgumentParser(prog="python -m reconciler", description=__doc__)
    parser.add_argument("--console", required=True, metavar="URL", help="of the console")
    parser.add_argument("--key-file", type=Path, required=True, help="an operator's API key")
    parser.add_argument(
        "--tenant",
        action="append",
        required=True,
        type=_pair,
        metavar="NAMESPACE=TENANT",
        help="which tenant a namespace stands for; repeat for several. Only these are watched",
    )
    parser.add_argument("--health", type=parse_host_port, metavar="HOST:PORT", help="serve /healthz there")
    parser.add_argument("--drift-ms", type=int, default=60_000, help="between two looks at an object")
    parser.add_argument("--server", metavar="URL", help="an API server without login, instead of the pod's")
    return parser.parse_args(arguments)


def _pair(text: str) -> tuple[str, str]:
    namespace, equals, tenant = text.partition("=")
    if not (namespace and equals and tenant):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAMESPACE=TENANT")
    return namespace, tenant


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _registry(options: argparse.Namespace, reconciler: Reconciler) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**arguments: Any) -> kopf.ConnectionInfo | None:
        if options.server is not None:
            return kopf.ConnectionInfo(server=options.server)
        return kopf.login_with_service_account(**arguments)

    @kopf.on.startup(registry=registry)
    def prepare(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.persistence.finalizer = f"{GROUP}/finalizer"
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
        settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
        settings.posting.enabled = False  # conditions say it, and say it once
        settings.scanning.disabled = True  # the namespaces and kinds are known
        settings.networking.request_timeout = 30
        settings.watching.server_timeout = 300
        settings.watching.client_timeout = 330

    register(registry, reconciler, options.drift_ms / 1000)
    return registry


async def _run(options: argparse.Namespace, key: str) -> None:
    async with Console(options.console, key) as console:
        reconciler = Reconciler(console, dict(options.tenant), _now)
        health = None
        if options.health is not None:
            health = f"http://{format_host_port(*options.health)}/healthz"
        await kopf.operator(
            registry=_registry(options, reconciler),
            namespaces=sorted(dict(options.tenant)),
            standalone=True,
            liveness_endpoint=health,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run until a signal comes."""
    options = parse_arguments(arguments)
    configure("reconciler")
    key = process.read_secret(options.key_file)
    assert key is not None, "the file is a required argument"
    process.own_files_only()
    asyncio.run(_run(options, key))


if __name__ == "__main__":
    main(sys.argv[1:])
