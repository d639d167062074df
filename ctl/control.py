"""The `control` process of the embedded stack: control plane and quota master, on two ports.

The console's port is public; the internal one carries feed and reports behind the deployment's secret.
"""

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.routing import Mount

from contracts.pipeline import PIPELINE_DIR, TABLES_DIR
from contracts.server_names import NamedPort, parse_domain
from contracts.specs import ConsumerKind
from contracts.usage_records import INTERVAL_MS_DEFAULT
from ctl.stack.layout import Layout
from ctl.stack.processes import APACHE_ID, CLUSTER_ID, DATABASE_URL, SERIES_PROMETHEUS
from master.app import create_app
from master.engines import Engines
from master.journal import Journal
from master.kept_series import KeptSeries
from master.metering import Metering
from master.node import MasterNode
from master.settings import MasterSettings
from runtime import metrics, process
from runtime.config import environment, format_host_port, parse_host_port
from runtime.feed import FeedFollower
from runtime.http_limits import HttpLimits, parse_proxies
from runtime.http_server import http_server, stop_serving, until_serving
from runtime.internal_http import INTERNAL_LIMITS, BearerSecret, BesideReady, InternalClient
from runtime.life import LIFE
from runtime.logs import configure, get_logger
from runtime.loop_thread import LoopThread
from runtime.redis_link import RedisLink, redis_url_argument, redis_url_of_environment
from runtime.tasks import Supervised
from runtime.trace_settings import settings_of
from runtime.tree.zookeeper import ZooKeeperTree
from runtime.upstream import Upstreams
from tenants.app import collectors, create_console_app, create_internal_routes
from tenants.config import (
    DELETION_GRACE_MS,
    LOOPBACK,
    REGION,
    ConsoleConfig,
    parse_region,
    sqlite_url,
)
from tenants.console import Console
from tenants.rules.cidrs import normalise
from tenants.rules.mail_settings import MailSettings, parse_smtp_url
from tenants.rules.mail_settings import settings_fault as mail_fault
from tenants.rules.oidc_settings import OidcSettings, settings_fault
from tenants.rules.prometheus_url import PrometheusUrl, parse_prometheus_url
from tenants.rules.vports import parse_vip
from tenants.store.database_url import DatabaseUrl
from tenants.store.engine import StoreUnavailable

if TYPE_CHECKING:
    from runtime.tracing import Tracing

_log = get_logger(__name__)
_OPERATOR_KEY_CHARACTERS_MIN: Final = 32


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The process's options; without arguments those of its command line."""
    parser = argparse.ArgumentParser(prog="python -m ctl.control")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--console", type=parse_host_port, required=True)
    parser.add_argument("--internal", type=parse_host_port, required=True)
    parser.add_argument("--metrics", type=parse_host_port, default=("127.0.0.1", 0), metavar="HOST:PORT")
    parser.add_argument("--vip", required=True)
    parser.add_argument("--vports", required=True)
    parser.add_argument("--quota-policy", required=True)
    parser.add_argument("--report-period-ms", type=int, required=True)
    parser.add_argument("--deletion-grace-ms", type=int, default=DELETION_GRACE_MS)
    parser.add_argument("--usage-interval-ms", type=int, default=INTERVAL_MS_DEFAULT)
    parser.add_argument("--zookeeper", help="where quota masters are elected; without it: this one always")
    parser.add_argument("--session-timeout-ms", type=int, default=6_000)
    parser.add_argument("--redis-url", type=redis_url_argument, default=redis_url_of_environment())
    parser.add_argument(
        "--series-prometheus",
        type=_prometheus_url,
        default=environment().get(SERIES_PROMETHEUS),
        metavar="URL",
        help="a Prometheus that scrapes this deployment; default: series are as long as they are recorded",
    )
    parser.add_argument("--database-url", type=_database_url, default=environment().get(DATABASE_URL))
    parser.add_argument("--trusted-proxies", type=parse_proxies, default=(), metavar="CIDR,...")
    parser.add_argument("--webhook-allow", type=parse_proxies, default=(), metavar="CIDR,...")
    parser.add_argument("--ckafka-region", type=parse_region, default=REGION)
    parser.add_argument(
        "--tls-cert", metavar="FILE", help="the gateways' certificate: without one no TLS can be ordered"
    )
    parser.add_argument(
        "--sni-domain", metavar="DOMAIN", type=parse_domain, help="of the gateways, told to tenants"
    )
    parser.add_argument("--sni-port", metavar="PORT", type=int, default=9093)
    parser.add_argument("--backend", metavar="HOST:PORT,...", help="an Apache Kafka; default: our brokers")
    parser.add_argument(
        "--credentials-dir",
        type=Path,
        metavar="DIR",
        help="credentials of clusters of Apache Kafka; default: in DATA_DIR",
    )
    _add_oidc_arguments(parser)
    _add_mail_arguments(parser)
    _add_elsewhere_arguments(parser)
    return parser.parse_args(arguments)


def _database_url(text: str) -> str:
    try:
        return DatabaseUrl.parse(text).url
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _prometheus_url(text: str) -> PrometheusUrl:
    try:
        return parse_prometheus_url(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _cidrs(text: str) -> tuple[str, ...]:
    return tuple(normalise(entry) for entry in text.split(","))


def _add_oidc_arguments(parser: argparse.ArgumentParser) -> None:
    """Who signs people in, beside passwords."""
    parser.add_argument("--oidc-issuer", metavar="URL", help="an identity provider; default: passwords alone")
    parser.add_argument("--oidc-client-id", metavar="ID", help="what the console is called there")
    parser.add_argument("--oidc-client-secret-file", type=Path, metavar="FILE", help="its secret there")
    parser.add_argument("--oidc-groups-claim", default="groups", metavar="NAME")
    parser.add_argument(
        "--oidc-console-url", metavar="URL", help="where browsers find the console; default: http://CONSOLE"
    )


def _oidc(options: argparse.Namespace) -> OidcSettings | None:
    """Raises: SystemExit with a sentence."""
    if options.oidc_issuer is None:
        return None
    settings = OidcSettings(
        issuer=options.oidc_issuer,
        client_id=options.oidc_client_id or "",
        client_secret=process.read_secret(options.oidc_client_secret_file),
        groups_claim=options.oidc_groups_claim,
        console_url=options.oidc_console_url or f"http://{format_host_port(*options.console)}",
    )
    fault = settings_fault(settings)
    if fault is not None:
        raise SystemExit(f"nobody can sign in by the identity provider: {fault}")
    return settings


def _add_mail_arguments(parser: argparse.ArgumentParser) -> None:
    """What takes e-mail about alarms."""
    parser.add_argument("--smtp-url", metavar="URL", help="smtp(s)://[USER@]HOST[:PORT]; default: no e-mail")
    parser.add_argument("--smtp-password-file", type=Path, metavar="FILE", help="of USER there")
    parser.add_argument("--smtp-sender", metavar="ADDRESS", help="whom mails are from")
    parser.add_argument(
        "--smtp-console-url", metavar="URL", help="where links of mails lead; default: http://CONSOLE"
    )


def _mail(options: argparse.Namespace) -> MailSettings | None:
    """Raises: SystemExit with a sentence."""
    if options.smtp_url is None:
        return None
    try:
        host, port, is_tls, user = parse_smtp_url(options.smtp_url)
    except ValueError as error:
        raise SystemExit(f"no e-mail can be sent: the URL of the server {error}") from error
    settings = MailSettings(
        host=host,
        port=port,
        is_tls=is_tls,
        user=user,
        password=process.read_secret(options.smtp_password_file),
        sender=options.smtp_sender or "",
        console_url=options.smtp_console_url or f"http://{format_host_port(*options.console)}",
    )
    if (fault := mail_fault(settings)) is not None:
        raise SystemExit(f"no e-mail can be sent: {fault}")
    return settings


def _add_elsewhere_arguments(parser: argparse.ArgumentParser) -> None:
    """What a stack of one machine makes for itself, and a deployment over several is given."""
    parser.add_argument("--secret-file", type=Path, help="the deployment's secret; default: made in DATA_DIR")
    parser.add_argument("--operator-key-file", type=Path, help="its API key; default: made in DATA_DIR")
    parser.add_argument(
        "--admin-password-file", type=Path, help="of the first user, where there is none yet; default: drawn"
    )
    parser.add_argument(
        "--system-whitelist",
        type=_cidrs,
        default=LOOPBACK,
        metavar="CIDR,...",
        help="where pipeline jobs read usage from",
    )
    parser.add_argument(
        "--brokers-elsewhere",
        action="store_true",
        help="brokers have disks of their own: the size of this one does not bound what may be sold",
    )


def _operator_key(layout: Layout, given: Path | None) -> str:
    """The local operator key: the given one, that of the last start while its file is there, or a new one."""
    if given is not None:
        key = process.read_secret(given) or ""
        if len(key) < _OPERATOR_KEY_CHARACTERS_MIN:
            raise SystemExit(
                f"the operator key in {given} is too short: {_OPERATOR_KEY_CHARACTERS_MIN} characters"
            )
        return key
    try:
        return str(json.loads(layout.run_file("operator").read_text())["api_key"])
    except (OSError, ValueError, KeyError):
        key = "pk_" + secrets.token_urlsafe(32)
        process.write_json(layout.run_file("operator"), {"api_key": key}, mode=0o600)
        return key


def _identity(layout: Layout) -> str:
    """The name of this process among those that share a database: drawn once for a data directory."""
    path = layout.control_dir / "process-id"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        path.write_text(secrets.token_hex(8))
        return path.read_text()


def _gateways_run(layout: Layout) -> bool:
    """Whether gateways of this stack hold their ports: then only this process is starting again."""
    for path in layout.run_file("control").parent.glob("gateway-*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            os.kill(int(json.loads(path.read_text())["pid"]), 0)
            return True
    return False


def _tree(options: argparse.Namespace, secret: str) -> ZooKeeperTree | None:
    if options.zookeeper is None:
        return None
    return ZooKeeperTree(options.zookeeper, options.session_timeout_ms, secret)


class Internal:
    """What brokers and gateways need of this process: feed, reports and the quota master, on a thread and an
    event loop of their own. Whatever the public port is made to do, leases are renewed (docs/adr/0022)."""

    def __init__(
        self, options: argparse.Namespace, layout: Layout, secret: str, redis: RedisLink | None
    ) -> None:
        self.url = f"http://{format_host_port(*options.internal)}"
        self._client = InternalClient(self.url, secret)
        self._specs = FeedFollower(self._client, "master", ConsumerKind.MASTER, None)
        journal = Journal(sqlite_url(str(layout.control_dir / "master.db")))
        upstreams = Upstreams(options.credentials_dir or layout.credentials_dir)
        settings = MasterSettings(
            policy=options.quota_policy,
            period_ms=options.report_period_ms,
            usage_interval_ms=options.usage_interval_ms,
        )
        self.master = MasterNode(
            lambda: self._specs.instances,
            journal,
            settings,
            url=self.url,
            tree=_tree(options, secret),
            make_metering=lambda: Metering(
                self._specs, journal, settings.usage_interval_ms, secret, upstreams
            ),
            run_engines=lambda service: Engines(self._specs, service, upstreams).run(),
            series=None if redis is None else KeptSeries(redis),
        )
        self._secret = secret
        self._address = options.internal

    async def run(self, console: Console, serves: Callable[[], None]) -> None:
        """Serve until cancelled; `serves` is called once it does."""
        routes = [*create_internal_routes(console), Mount("/", create_app(self.master))]
        app = BesideReady(BearerSecret(Starlette(routes=routes), self._secret), lambda: None)
        server = http_server(app, self._address, INTERNAL_LIMITS)
        tasks = Supervised()
        serving = asyncio.create_task(server.serve())
        try:
            console.start_feed(tasks)
            await until_serving([server], [serving])
            tasks.spawn("specs", self._specs.run)
            tasks.spawn("master", self.master.run)
            serves()
            await serving
        finally:
            await tasks.aclose()  # among them a follower of our own feed
            await stop_serving([server], [serving])
            await self._client.aclose()


class Control:
    """The parts of the process, in the order they are made."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.layout = Layout(options.data_dir)
        options.data_dir.mkdir(parents=True, exist_ok=True)
        process.close_to_others(options.data_dir)
        secret = process.read_secret(options.secret_file) or self.layout.ensure_secret()
        self._secret = secret
        self.layout.control_dir.mkdir(parents=True, exist_ok=True)
        first, _, last = options.vports.partition("-")
        config = ConsoleConfig(
            identity=_identity(self.layout),
            database_url=options.database_url or sqlite_url(str(self.layout.control_dir / "portico.db")),
            vip_pool=parse_vip(options.vip, int(first), int(last)),
            default_cluster_id=CLUSTER_ID if options.backend is None else APACHE_ID,
            backend=options.backend,
            credentials_dir=options.credentials_dir or self.layout.credentials_dir,
            secret=secret,
            deletion_grace_ms=options.deletion_grace_ms,
            disk_bytes=None
            if options.brokers_elsewhere or options.backend
            else shutil.disk_usage(options.data_dir).total,
            admin_password=process.read_secret(options.admin_password_file),
            system_whitelist=options.system_whitelist,
            region=options.ckafka_region,
            tables_dir=options.data_dir / PIPELINE_DIR / TABLES_DIR,
            redis_url=options.redis_url,
            series_prometheus=options.series_prometheus,
            oidc=_oidc(options),
            mail=_mail(options),
            webhook_ranges=options.webhook_allow,
            named_port=NamedPort(options.sni_domain, options.sni_port) if options.sni_domain else None,
            serves_tls=options.tls_cert is not None,
            tls_certificate=None if options.tls_cert is None else Path(options.tls_cert),
        )
        self.to_master = InternalClient(lambda: self.internal.master.elected_url, secret)
        self.console = Console(config, self.to_master)
        self.internal = Internal(options, self.layout, secret, self.console.redis)
        limits = HttpLimits(port="public", proxies=options.trusted_proxies)
        self._tracing = self._begin_tracing(config.identity)
        provider = None if self._tracing is None else self._tracing.provider
        self.public = http_server(create_console_app(self.console, provider), options.console, limits)

    def _begin_tracing(self, identity: str) -> "Tracing | None":
        settings = settings_of(environment())
        if settings is None:
            return None
        # All of these import OpenTelemetry's SDK.
        from runtime.http_sampling import HttpSampler
        from runtime.tracing import Tracing
        from tenants.tracing import trace_calls

        sampler = HttpSampler(settings.ratio, settings.per_second)
        tracing = Tracing(settings, "control", f"control-{identity}", sampler)
        trace_calls(self.console, tracing.provider)
        return tracing

    async def run(self) -> None:
        """Serve until cancelled."""
        key = _operator_key(self.layout, self.options.operator_key_file)
        if self.options.zookeeper is None and await asyncio.to_thread(self.console.others_live):
            raise SystemExit(
                "another control process uses this database: several need --zookeeper, by which they elect "
                "the quota master (one that was killed is forgotten after 10 s)"
            )
        made = await asyncio.to_thread(self.console.bootstrap, key)
        if not _gateways_run(self.layout):
            for failed in await asyncio.to_thread(self.console.withhold_taken_ports):
                _log.warning("port in use", instance=failed.id, name=failed.name)
        tasks = Supervised()
        serves = asyncio.get_running_loop().create_future()
        internal = self._start_internal(serves)
        serving = asyncio.create_task(self.public.serve())
        try:
            self.console.start(tasks)
            await until_serving([self.public], [serving])
            await asyncio.wait([serves, internal.ended], return_when=asyncio.FIRST_COMPLETED)
            if serves.done():
                self._tell(key, made.admin_password)
                LIFE.serving()
                await self._until_ended(serving, internal.ended)
        finally:
            await self._close(tasks, serving, internal)
        internal.ended.result()  # raises what ended it

    async def _until_ended(self, *parts: asyncio.Future[None]) -> None:
        """Until a part ends, or the database moved on without this release. Raises: SystemExit."""
        while not (await asyncio.wait(parts, timeout=1, return_when=asyncio.FIRST_COMPLETED))[0]:
            shared = self.console.shared
            if shared is not None and shared.must_end.is_set():
                raise SystemExit(shared.schema_moved)

    def _start_internal(self, serves: asyncio.Future[None]) -> LoopThread:
        loop = asyncio.get_running_loop()

        def tell() -> None:
            loop.call_soon_threadsafe(serves.set_result, None)

        thread = LoopThread("internal", lambda: self.internal.run(self.console, tell))
        thread.start()
        return thread

    def _tell(self, key: str, password: str | None) -> None:
        host, port = self.options.metrics
        told = collectors(self.console)
        if self._tracing is not None:
            told = [*told, self._tracing.collector]
        scraped = metrics.serve(host, port, self._secret, collectors=told)
        facts = {"api_key": key, "internal": self.internal.url, **metrics.facts(scraped)}
        if password is not None:
            facts["admin_password"] = password
        process.write_json(self.layout.run_file("control"), {"pid": os.getpid(), **facts}, mode=0o600)

    async def _close(self, tasks: Supervised, serving: asyncio.Task[None], internal: LoopThread) -> None:
        self.console.closing.set()
        await tasks.aclose()
        await asyncio.gather(stop_serving([self.public], [serving]), internal.stop())
        await self.to_master.aclose()
        self.console.close()
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.close)


def main() -> None:
    """Run the process."""
    configure("control")
    options = parse_arguments()
    process.run(lambda: _made(options).run())


def _made(options: argparse.Namespace) -> Control:
    """The process's parts. Raises: SystemExit with a sentence when its files are not its own."""
    try:
        return Control(options)
    except StoreUnavailable as error:
        hint = "" if options.database_url else ": does it belong to the user who starts Portico?"
        raise SystemExit(f"{error}{hint}") from error
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).partition("\n")[0]
        raise SystemExit(
            f"the quota master's journal in {options.data_dir} cannot be opened: {reason}"
        ) from error
    except OSError as error:
        raise SystemExit(f"{error.filename or options.data_dir} cannot be used: {error.strerror}") from error


if __name__ == "__main__":
    main()
