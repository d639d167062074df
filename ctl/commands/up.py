"""`portico up`: run the whole product on this machine until Ctrl-C."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ctl.errors import CommandError, usage
from ctl.installation import CALLED
from ctl.options import DEFAULT_DATA_DIR
from ctl.stack.packages import start_again_with
from runtime.config import ConfigFault
from runtime.notify import Notifier
from runtime.process import write_json

Text = Annotated[str | None, typer.Option()]


ProxyProtocolFrom = Annotated[
    str | None, typer.Option(metavar="CIDR,...", help="Balancers before the vips: PROXY headers.")
]
TlsCert = Annotated[str | None, typer.Option(metavar="FILE", help="Certificate of listeners with TLS, PEM.")]
TlsKey = Annotated[str | None, typer.Option(metavar="FILE", help="Its key.")]
TlsClientCa = Annotated[
    str | None, typer.Option(metavar="FILE", help="Whose certificates users show instead of passwords.")
]

SniDomain = Annotated[
    str | None, typer.Option(metavar="DOMAIN", help="One port for all instances with TLS: <instance>.DOMAIN.")
]
SniPort = Annotated[str | None, typer.Option(metavar="PORT", help="That port; 9093 by default.")]
SniHost = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Where it is bound; as the vips.")]
SniCert = Annotated[str | None, typer.Option(metavar="FILE", help="Its certificate; else --tls-cert.")]

RedisUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="With a password rather PORTICO_REDIS_URL or portico.toml."),
]
SeriesPrometheus = Annotated[
    str | None,
    typer.Option(metavar="URL", help="One that scrapes this stack: charts of longer times are read from it."),
]
Detach = Annotated[
    bool,
    typer.Option("--detach", help="Go on in the background, restarted when killed; `portico down` stops it."),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="A Postgres; PORTICO_DATABASE_URL hides its password better."),
]
Pipeline = Annotated[
    bool | None,
    typer.Option("--pipeline/--no-pipeline", help="Run meter, advise, close and what is scheduled."),
]
JobLimit = Annotated[
    str | None, typer.Option(metavar="TIME", help="A scheduled job that runs longer is ended; 1h.")
]
TrustedProxies = Annotated[
    str | None, typer.Option(metavar="CIDR,...", help="Proxies before the console that are believed.")
]
WebhookAllow = Annotated[
    str | None, typer.Option(metavar="CIDR,...", help="Private ranges that webhooks may call.")
]
DeletionGrace = Annotated[
    str | None, typer.Option(metavar="TIME", help="7d by default; 0 purges at once what is deleted.")
]
HangTimeout = Annotated[
    str | None, typer.Option(metavar="MS", help="Restart a process without a sign of life; 0: never.")
]
OidcIssuer = Annotated[
    str | None, typer.Option(metavar="URL", help="An identity provider: people sign in by it.")
]
OidcClient = Annotated[str | None, typer.Option(metavar="ID", help="What the console is called there.")]
OidcSecret = Annotated[str | None, typer.Option(metavar="FILE", help="Its secret there.")]
OidcClaim = Annotated[str | None, typer.Option(metavar="NAME", help="Tells somebody's groups; groups.")]
OidcConsole = Annotated[
    str | None, typer.Option(metavar="URL", help="Where browsers find the console, behind a proxy say.")
]
SmtpUrl = Annotated[str | None, typer.Option(metavar="URL", help="smtp(s)://[USER@]HOST[:PORT], for alarms.")]
SmtpPassword = Annotated[str | None, typer.Option(metavar="FILE", help="Of USER there.")]
SmtpSender = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Whom mails are from.")]
SmtpConsole = Annotated[
    str | None, typer.Option(metavar="URL", help="Where links of mails lead, behind a proxy say.")
]
Metrics = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="First port of the metrics; 9400 by default.")
]


def up(
    data_dir: Annotated[Path, typer.Option(envvar="PORTICO_DATA_DIR")] = DEFAULT_DATA_DIR,
    console: Annotated[str | None, typer.Option(metavar="HOST:PORT")] = None,
    trusted_proxies: TrustedProxies = None,
    webhook_allow: WebhookAllow = None,
    oidc_issuer: OidcIssuer = None,
    oidc_client_id: OidcClient = None,
    oidc_client_secret_file: OidcSecret = None,
    oidc_groups_claim: OidcClaim = None,
    oidc_console_url: OidcConsole = None,
    smtp_url: SmtpUrl = None,
    smtp_password_file: SmtpPassword = None,
    smtp_sender: SmtpSender = None,
    smtp_console_url: SmtpConsole = None,
    ckafka_region: Annotated[str | None, typer.Option(metavar="NAME", help="Named by Tencent's SDK.")] = None,
    database_url: DatabaseUrl = None,
    vip: Annotated[str | None, typer.Option(metavar="ADDRESS")] = None,
    vports: Annotated[str | None, typer.Option(metavar="FIRST-LAST")] = None,
    proxy_protocol_from: ProxyProtocolFrom = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    sni_domain: SniDomain = None,
    sni_port: SniPort = None,
    sni_host: SniHost = None,
    sni_cert: SniCert = None,
    sni_key: TlsKey = None,
    metrics: Metrics = None,
    otlp_endpoint: Annotated[str | None, typer.Option(metavar="URL", help="Collector of traces.")] = None,
    traces_ratio: Annotated[str | None, typer.Option(metavar="SHARE", help="0 to 1.")] = None,
    traces_per_second: Annotated[str | None, typer.Option(metavar="N", help="Of an instance.")] = None,
    prometheus_dir: Annotated[str | None, typer.Option(metavar="DIR", help="Of targets and token.")] = None,
    series_prometheus: SeriesPrometheus = None,
    workers: Annotated[str | None, typer.Option(metavar="N", help="Gateway processes.")] = None,
    brokers: Annotated[str | None, typer.Option(metavar="N", help="1 to 9; default: as before.")] = None,
    backend: Annotated[str | None, typer.Option(metavar="HOST:PORT,...", help="An Apache Kafka.")] = None,
    zookeeper: Annotated[
        str | None, typer.Option(metavar="HOST:PORT[/CHROOT]", help="Use this one; default: start one.")
    ] = None,
    redis_url: RedisUrl = None,
    session_timeout_ms: Annotated[str | None, typer.Option(metavar="MS", help="400 to 60000.")] = None,
    replication_factor: Annotated[str | None, typer.Option(metavar="N")] = None,
    min_insync_replicas: Annotated[str | None, typer.Option(metavar="N")] = None,
    quota_policy: Annotated[str | None, typer.Option(metavar="seed|capped|static|fair")] = None,
    report_period_ms: Annotated[str | None, typer.Option(metavar="MS", help="1000 to 10000.")] = None,
    deletion_grace: DeletionGrace = None,
    usage_interval_ms: Annotated[str | None, typer.Option(metavar="MS", help="1000 to 300000.")] = None,
    hang_timeout_ms: HangTimeout = None,
    pipeline: Pipeline = None,
    pipeline_job_limit: JobLimit = None,
    ready_file: Annotated[Path | None, typer.Option(help="Written when everything serves.")] = None,
    detach: Detach = False,
    greeting_fd: Annotated[int, typer.Option(hidden=True)] = -1,
) -> None:
    """Start control plane, quota master, brokers and gateway; stay in the foreground; Ctrl-C stops all."""
    given = locals()
    from ctl.stack.settings import SETTINGS, load

    given["pipeline"] = None if pipeline is None else "on" if pipeline else "off"
    flags = {setting.name: given[setting.name] for setting in SETTINGS}  # an option for each
    try:
        settings = load(data_dir, flags)
    except ConfigFault as fault:
        raise usage("; ".join(fault.faults)) from fault
    if _lacks_packages(data_dir, settings):
        start_again_with("pipeline")
    if detach:
        _detach(data_dir)
        return
    asyncio.run(_serve(data_dir.resolve(), settings, ready_file, greeting_fd))


def _lacks_packages(data_dir: Path, settings: dict[str, Any]) -> bool:
    """Of one wheel are both: ZooKeeper's server, and Spark."""
    from ctl.stack.cluster import OWN, planned, remembered
    from ctl.stack.layout import Layout
    from ctl.stack.zookeeper import is_installed

    values = {name: setting.value for name, setting in settings.items()}
    is_asked = values["pipeline"] or planned(values, remembered(Layout(data_dir))).zookeeper == OWN
    return is_asked and not is_installed()


def _detach(data_dir: Path) -> None:
    from ctl.stack.detach import detach
    from ctl.stack.layout import Layout

    detach(Layout(data_dir.resolve()), "a stack", sys.argv[1:], "portico down")


async def _serve(data_dir: Path, settings: Any, ready_file: Path | None, greeting_fd: int) -> None:
    from ctl.stack.layout import Layout
    from ctl.stack.steps import Teller
    from ctl.stack.supervisor import Stack

    teller = Teller(greeting_fd=greeting_fd)
    stack = Stack(Layout(data_dir), settings, teller)
    stack.lock()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    notifier = Notifier()
    beats = asyncio.create_task(notifier.beat())
    starting = asyncio.create_task(stack.start())
    waiting = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not stopped.is_set():
            content = starting.result()
            if ready_file is not None:
                _write_ready_file(ready_file, content)
            loop.add_signal_handler(signal.SIGHUP, lambda: asyncio.ensure_future(stack.upgrade_gateways()))
            teller.greet(_greeting(content, data_dir, is_detached=greeting_fd >= 0))
            notifier.tell("READY=1")
            await waiting
            teller.say("stopping")
    finally:
        notifier.tell("STOPPING=1")
        beats.cancel()
        starting.cancel()
        await stack.stop()
        await asyncio.to_thread(_remove, ready_file)


def _write_ready_file(path: Path, content: dict[str, Any]) -> None:
    public = {name: value for name, value in content.items() if name != "admin_password"}
    try:
        write_json(path, public, mode=0o600)
    except OSError as error:
        raise CommandError(f"the ready file {path} cannot be written: {error.strerror}") from error


def _remove(path: Path | None) -> None:
    if path is not None:
        path.unlink(missing_ok=True)


def _greeting(content: dict[str, Any], data_dir: Path, *, is_detached: bool) -> str:
    password = content.get("admin_password")
    option = "" if data_dir == DEFAULT_DATA_DIR.resolve() else f" --data-dir {data_dir}"
    login = (
        f"admin / {password}   (shown once)"
        if password
        else f"admin (`{CALLED} admin reset-password{option}` makes a new one)"
    )
    create = "--produce-rate 20MB/s --consume-rate 40MB/s --capacity 10GB --whitelist 127.0.0.1/32"
    end = f"`portico down{option}` stops it." if is_detached else "Ctrl-C stops everything."
    return f"""
Portico serves.

  console   {content["console"]}
  login     {login}
  data      {data_dir}

Next, in another terminal:

  {CALLED} instance create first {create}{option}
  {CALLED} demo{option}
  {CALLED} doctor{option}

{end}"""
