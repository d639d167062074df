"""`python -m master`: a quota master beside the control plane, elected in ZooKeeper (docs/quota.md)."""

import argparse
import asyncio
from pathlib import Path

import prometheus_client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from contracts.specs import ConsumerKind
from master.app import create_app
from master.engines import Engines
from master.journal import Journal
from master.kept_series import KeptSeries
from master.metering import Metering
from master.node import MasterNode
from master.quota.policies import POLICIES
from master.settings import MasterSettings
from runtime import process
from runtime.config import format_host_port, parse_host_port
from runtime.feed import FeedFollower
from runtime.http_server import http_server, stop_serving, until_serving
from runtime.internal_http import INTERNAL_LIMITS, BearerSecret, BesideReady, InternalClient
from runtime.life import LIFE
from runtime.logs import configure
from runtime.redis_link import RedisLink, redis_url_argument, redis_url_of_environment
from runtime.tasks import Supervised
from runtime.tree.zookeeper import ZooKeeperTree
from runtime.upstream import Upstreams


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m master", description=__doc__)
    defaults = MasterSettings()
    parser.add_argument("--data-dir", type=Path, required=True, help="its journal and the specs it knows")
    parser.add_argument("--control", required=True, metavar="URL", help="the control plane's internal server")
    parser.add_argument("--secret-file", type=Path, required=True, help="the deployment's secret")
    parser.add_argument("--zookeeper", required=True, metavar="HOST:PORT[/CHROOT]", help="as the brokers'")
    parser.add_argument("--session-timeout-ms", type=int, default=6_000)
    parser.add_argument("--listen", type=parse_host_port, required=True, metavar="HOST:PORT")
    parser.add_argument("--url", help="what brokers call; default: http://LISTEN")
    parser.add_argument("--quota-policy", choices=[*POLICIES], default=defaults.policy)
    parser.add_argument("--report-period-ms", type=int, default=defaults.period_ms)
    parser.add_argument("--usage-interval-ms", type=int, default=defaults.usage_interval_ms)
    parser.add_argument("--redis-url", type=redis_url_argument, default=redis_url_of_environment())
    parser.add_argument("--credentials-dir", type=Path, help="credentials of clusters of Apache Kafka")
    parser.add_argument("--run-file", type=Path, help="written when it serves")
    return parser.parse_args(arguments)


class MasterProcess:
    """The parts of the process, in the order they are made."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        secret = process.read_secret(options.secret_file)
        assert secret is not None, "the secret's file is a required argument"
        settings = MasterSettings(
            policy=options.quota_policy,
            period_ms=options.report_period_ms,
            usage_interval_ms=options.usage_interval_ms,
        )
        try:
            settings.validate()
        except ValueError as error:
            raise SystemExit(str(error)) from error
        options.data_dir.mkdir(parents=True, exist_ok=True)
        process.close_to_others(options.data_dir)
        self._client = InternalClient(options.control, secret)
        address = format_host_port(*options.listen)
        specs = FeedFollower(
            self._client, f"master-{address}", ConsumerKind.MASTER, options.data_dir / "specs.json"
        )
        self._specs = specs
        upstreams = Upstreams(options.credentials_dir)
        journal = Journal(f"sqlite:///{options.data_dir / 'master.db'}")
        self._redis = None if options.redis_url is None else RedisLink(options.redis_url)
        self._node = MasterNode(
            lambda: specs.instances,
            journal,
            settings,
            url=options.url or f"http://{address}",
            tree=ZooKeeperTree(options.zookeeper, options.session_timeout_ms, secret),
            make_metering=lambda: Metering(specs, journal, settings.usage_interval_ms, secret, upstreams),
            run_engines=lambda service: Engines(specs, service, upstreams).run(),
            series=None if self._redis is None else KeptSeries(self._redis),
        )
        routes = [Route("/metrics", _metrics), Mount("/", create_app(self._node))]
        app = BesideReady(BearerSecret(Starlette(routes=routes), secret), self._unready)
        self._server = http_server(app, options.listen, INTERNAL_LIMITS)

    def _unready(self) -> str | None:
        if not self._specs.position[0]:
            return "the control plane has not told which instances there are"
        return None

    async def run(self) -> None:
        """Serve until cancelled."""
        self._specs.load_cache()
        if self._redis is not None:
            self._redis.start()
        tasks = Supervised()
        serving = asyncio.create_task(self._server.serve())
        try:
            await until_serving([self._server], [serving])
            tasks.spawn("specs", self._specs.run)
            tasks.spawn("master", self._node.run)
            if self._options.run_file is not None:
                process.write_run_file(self._options.run_file, {})
            LIFE.serving()
            await serving
        finally:
            await tasks.aclose()
            await stop_serving([self._server], [serving])
            await self._client.aclose()
            if self._redis is not None:
                self._redis.close()


async def _metrics(request: Request) -> Response:  # noqa: ARG001 - Starlette's signature
    return Response(prometheus_client.generate_latest(), media_type=prometheus_client.CONTENT_TYPE_LATEST)


def main(arguments: list[str] | None = None) -> None:
    """Run the process."""
    configure("master")
    options = _arguments(arguments)
    process.run(lambda: MasterProcess(options).run())


if __name__ == "__main__":
    main()
