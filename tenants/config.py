"""What the control plane is told when it starts."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from contracts.server_names import NamedPort
from runtime.redis_link import BUDGET_MS, RedisUrl
from tenants.rules.mail_settings import MailSettings
from tenants.rules.oidc_settings import OidcSettings
from tenants.rules.prometheus_url import PrometheusUrl
from tenants.rules.rate_limit import ApiRates
from tenants.rules.vports import VipPool

LOOPBACK: Final = ("127.0.0.0/8", "::1/128")
DELETION_GRACE_MS: Final = 7 * 24 * 3600 * 1000
"""The default of `--deletion-grace`: so long a deleted instance is kept whole."""
REGION: Final = "local"
"""The default of `--ckafka-region`."""
_REGION: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleConfig:
    """Settings of one control plane; all need a restart."""

    identity: str = "control"
    """The name of this control process among those that share a database; the same after a restart."""
    database_url: str
    """SQLAlchemy's: `sqlite:////path/console.db`, or `postgresql+psycopg://...` in production."""
    vip_pool: VipPool
    """Where instances are reached, from `vports.parse_vip`."""
    default_cluster_id: str
    """The cluster that instances are placed on before any broker has registered."""
    backend: str | None = None
    """Where the default cluster is when it is an Apache Kafka, HOST:PORT,...; None: it is ours."""
    credentials_dir: Path | None = None
    """What clusters of Apache Kafka are entered with: a folder each, by its name."""
    secret: str | None
    """The deployment's secret, to log in at brokers; None: brokers on loopback that ask for none."""
    admin_password: str | None = field(default=None, repr=False)
    """The first user's, where there is none yet; None: it is drawn and told once."""
    system_whitelist: tuple[str, ...] = LOOPBACK
    """Where the system instance may be reached from: pipeline jobs read usage there."""
    deletion_grace_ms: int = DELETION_GRACE_MS
    """How long a deleted instance is kept before it is purged; 0: not at all."""
    disk_bytes: int | None = None
    """Size of the disk that holds the data of all brokers, which bounds the capacity that is sold; None: they
    have disks of their own."""
    region: str = REGION
    """What the CKafka-compatible endpoint calls the region it is in."""
    tables_dir: Path | None = None
    """Where the pipeline writes its tables of usage, bills and advice; None: there is no pipeline here."""
    serves_tls: bool = False
    """Whether gateways have a certificate, so that listeners with TLS may be ordered."""
    tls_certificate: Path | None = None
    """The gateways' certificate as this machine has it: an alarm tells before it ends."""
    named_port: NamedPort | None = None
    """Where gateways serve all instances with TLS by names; None: at vports alone."""
    webhook_ranges: tuple[str, ...] = ()
    """CIDRs that webhooks may call though they are not of the public internet."""
    mail: MailSettings | None = None
    """What takes e-mail about alarms; None: none is sent."""
    oidc: OidcSettings | None = None
    """Who signs people in beside passwords; None: nobody."""
    redis_url: RedisUrl | None = None
    """What control processes share for speed; None: each does without."""
    redis_budget_ms: int = BUDGET_MS
    """Time of one call to Redis."""
    series_prometheus: PrometheusUrl | None = None
    """What scrapes this deployment, for series of longer times; None: what is recorded is all there is."""
    rates: ApiRates = field(default_factory=ApiRates)
    """How many requests callers may send."""


def sqlite_url(path: str) -> str:
    """The URL of a SQLite file."""
    return f"sqlite:///{path}"


def parse_region(text: str) -> str:
    """A region's name as clients send it. Raises: ValueError with a sentence."""
    if _REGION.match(text) is None:
        raise ValueError(f"'{text}' is not a region: 1 to 32 lower-case letters, digits and '-'")
    return text
