"""The `control` process of the embedded stack: control plane and quota master, on two ports.

The console's port is public; the internal one carries feed and reports behind the deployment's secret.
"""

import argparse
import asyncio
import contextlib
import json
import os
import secrets
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount

from contracts.pipeline import PIPELINE_DIR, TABLES_DIR
from contracts.specs import ConsumerKind
from contracts.usage import INTERVAL_MS_DEFAULT
from ctl.stack.layout import Layout
from ctl.stack.processes import CLUSTER_ID
from master.app import create_app
from master.journal import Journal
from master.metering import Metering
from master.node import MasterNode
from master.settings import MasterSettings
from runtime import process
from runtime.config import format_host_port, parse_host_port
from runtime.feed import FeedFollower
from runtime.http_server import http_server, stop_serving, until_serving
from runtime.internal_http import BearerSecret, InternalClient
from runtime.logs import configure, get_logger
from runtime.tasks import Supervised
from runtime.tree.zookeeper import ZooKeeperTree
from tenants.app import create_console_app, create_internal_routes
from tenants.config import ConsoleConfig, sqlite_url
from tenants.console import Console
from tenants.vports import parse_vip

_log = get_logger(__name__)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ctl.control")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--console", type=parse_host_port, required=True)
    parser.add_argument("--internal", type=parse_host_port, required=True)
    parser.add_argument("--vip", required=True)
    parser.add_argument("--vports", required=True)
    parser.add_argument("--quota-policy", required=True)
    parser.add_argument("--report-period-ms", type=int, required=True)
    parser.add_argument("--usage-interval-ms", type=int, default=INTERVAL_MS_DEFAULT)
    parser.add_argument("--zookeeper", help="where quota masters are elected; without it: this one always")
    parser.add_argument("--session-timeout-ms", type=int, default=6_000)
    return parser.parse_args()


def _operator_key(layout: Layout) -> str:
    """The local operator key: the one of the last start while its file is there, else a new one."""
    try:
        return str(json.loads(layout.run_file("operator").read_text())["api_key"])
    except (OSError, ValueError, KeyError):
        key = "pk_" + secrets.token_urlsafe(32)
        process.write_json(layout.run_file("operator"), {"api_key": key}, mode=0o600)
        return key


def _gateways_run(layout: Layout) -> bool:
    """Whether gateways of this stack hold their ports: then only this process is starting again."""
    for path in layout.run_file("control").parent.glob("gateway-*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            os.kill(int(json.loads(path.read_text())["pid"]), 0)
            return True
    return False


class Control:
    """The parts of the process, in the order they are made."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.layout = Layout(options.data_dir)
        secret = self.layout.ensure_secret()
        self.layout.control_dir.mkdir(parents=True, exist_ok=True)
        first, _, last = options.vports.partition("-")
        config = ConsoleConfig(
            database_url=sqlite_url(str(self.layout.control_dir / "portico.db")),
            vip_pool=parse_vip(options.vip, int(first), int(last)),
            default_cluster_id=CLUSTER_ID,
            secret=secret,
            tables_dir=options.data_dir / PIPELINE_DIR / TABLES_DIR,
        )
        self.internal_url = f"http://{format_host_port(*options.internal)}"
        self.client = InternalClient(self.internal_url, secret)
        self.to_master = InternalClient(lambda: self.master.elected_url, secret)
        self.console = Console(config, self.to_master)
        self.specs = FeedFollower(self.client, "master", ConsumerKind.MASTER, None)
        journal = Journal(sqlite_url(str(self.layout.control_dir / "master.db")))
        settings = MasterSettings(
            policy=options.quota_policy,
            period_ms=options.report_period_ms,
            usage_interval_ms=options.usage_interval_ms,
        )
        self.master = MasterNode(
            lambda: self.specs.instances,
            journal,
            settings,
            url=self.internal_url,
            tree=ZooKeeperTree(options.zookeeper, options.session_timeout_ms) if options.zookeeper else None,
            make_metering=lambda: Metering(self.specs, journal, settings.usage_interval_ms, secret),
        )
        routes = [*create_internal_routes(self.console), Mount("/", create_app(self.master))]
        self.internal = http_server(BearerSecret(Starlette(routes=routes), secret), options.internal)
        self.public = http_server(create_console_app(self.console), options.console)

    async def run(self) -> None:
        """Serve until cancelled."""
        key = _operator_key(self.layout)
        made = await asyncio.to_thread(self.console.bootstrap, key)
        if not _gateways_run(self.layout):
            for failed in await asyncio.to_thread(self.console.withhold_taken_ports):
                _log.warning("port in use", instance=failed.id, name=failed.name)
        tasks = Supervised()
        servers = [asyncio.create_task(server.serve()) for server in (self.internal, self.public)]
        try:
            self.console.start(tasks)
            await until_serving((self.internal, self.public), servers)
            tasks.spawn("specs", self.specs.run)
            tasks.spawn("master", self.master.run)
            self._tell(key, made.admin_password)
            await asyncio.wait(servers, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._close(tasks, servers)

    def _tell(self, key: str, password: str | None) -> None:
        facts = {"pid": os.getpid(), "api_key": key, "metrics": f"{self.internal_url}/metrics"}
        if password is not None:
            facts["admin_password"] = password
        process.write_json(self.layout.run_file("control"), facts, mode=0o600)

    async def _close(self, tasks: Supervised, servers: list[asyncio.Task[None]]) -> None:
        self.console.closing.set()
        await tasks.aclose()  # among them a follower of our own feed
        await stop_serving((self.public, self.internal), servers)
        await self.client.aclose()
        await self.to_master.aclose()
        self.console.close()


def main() -> None:
    """Run the process."""
    configure("control")
    options = _arguments()
    process.run(lambda: Control(options).run())


if __name__ == "__main__":
    main()
