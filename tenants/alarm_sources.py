"""Where alarms get their figures: the same that pages show, asked for once for all instances."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509

from contracts.billing import Bill
from contracts.quota_view import QuotaView
from contracts.specs import ClusterSpec, ConsumerKind, Engine
from contracts.upstream import CERTIFICATE_FILE
from runtime.clock import monotonic_ms
from tenants.alarm_lags import Lags
from tenants.feed import Feed
from tenants.purge_rule import FORGET_AFTER_MS
from tenants.quota import QuotaSource
from tenants.rules import alarm_figures
from tenants.rules.alarm_figures import Count, Counted, Window
from tenants.rules.alarms import DEPLOYMENT, OF_INSTANCES, AlarmKind, Finding, printable, rule_of
from tenants.rules.cluster_health import Illness
from tenants.rules.errors import Unavailable
from tenants.shared_ledger import SharedLedger
from tenants.store.alarms import Key
from tenants.store.instances import Place
from tenants.usecases.alarms import Rules
from tenants.usecases.bills import BillReports

_BILLS_EVERY_MS: Final = 300_000
_DAY_S: Final = 86_400
_REFUSED: Final = ("not_whitelisted",)
_WRONG: Final = ("authentication_failed", "too_many_wrong_passwords", "certificate_refused")
"""Causes of closed connections, as gateways count them."""


@dataclass(slots=True)
class _Series:
    """What is remembered of one instance."""

    produce: Window = field(default_factory=Window)
    consume: Window = field(default_factory=Window)
    stored: Window = field(default_factory=Window)
    refused: Counted = field(default_factory=Counted)
    wrong: Counted = field(default_factory=Counted)


class Told(NamedTuple):
    """What one look was told of all instances."""

    quota: Mapping[str, QuotaView]
    bills: Mapping[str, Bill] | None
    gateways_report: bool
    heard: frozenset[str]
    """Gateway workers that had told of themselves at the look before."""
    ill: Mapping[str, Illness]
    """By cluster."""


class AlarmSources:
    """Figures of a look. Windows are kept here, by each control process for itself: whoever takes over the
    office has seen what the other one saw."""

    def __init__(
        self,
        quota: QuotaSource,
        gateways: SharedLedger,
        feed: Feed,
        bills: BillReports,
        lags: Lags,
        *,
        clusters: Callable[[], list[ClusterSpec]],
        illness: Callable[[str], Illness | None],
        certificates: Callable[[], Mapping[str, Path]],
    ) -> None:
        """`clusters` and `certificates` block; the latter are files by what people call them."""
        self._quota = quota
        self._gateways = gateways
        self._feed = feed
        self._bills = bills
        self._lags = lags
        self._clusters = clusters
        self._illness = illness
        self._certificates = certificates
        self._series: dict[str, _Series] = {}
        self._heard: frozenset[str] = frozenset()
        self._bills_of: Mapping[str, Bill] | None = None
        self._bills_asked_ms: int | None = None

    async def look(self, places: Mapping[str, Place], rules: Rules, now_ms: int) -> dict[Key, Finding]:
        """Every figure there is, `now_ms` being epoch time."""
        clusters = await asyncio.to_thread(self._clusters)
        ills = {one.cluster_id: self._illness(one.cluster_id) for one in clusters}
        ill = {cluster_id: one for cluster_id, one in ills.items() if one is not None}
        wants_bills = any(rule_of(AlarmKind.BILL_ABOVE, instance_id, rules).enabled for instance_id in places)
        heard, self._heard = self._heard, self._gateways.workers()
        told = Told(
            heard=heard,
            quota=await self._quota.usage(),
            bills=await self._month_bills(now_ms) if wants_bills else None,
            gateways_report=bool(self._gateways.connections_by_worker(monotonic_ms())),
            ill=ill,
        )
        return await asyncio.to_thread(self._found, clusters, places, rules, told, now_ms)

    def _found(
        self,
        clusters: list[ClusterSpec],
        places: Mapping[str, Place],
        rules: Rules,
        told: Told,
        now_ms: int,
    ) -> dict[Key, Finding]:
        """In a thread: a thousand instances would hold the loop up."""
        for gone in self._series.keys() - places.keys():
            del self._series[gone]
        found: dict[Key, Finding] = {}
        for instance_id, place in places.items():
            for kind, finding in self._of_instance(instance_id, place, rules, told, now_ms).items():
                found[instance_id, kind, ""] = finding
        for kind, subject, finding in [
            *_of_clusters(clusters, told.ill),
            *self._of_brokers(clusters),
            *self._of_gateways(),
            *self._of_certificates(now_ms),
        ]:
            found[DEPLOYMENT, kind, printable(subject)] = finding
        return found

    def _of_instance(
        self, instance_id: str, place: Place, rules: Rules, told: Told, now_ms: int
    ) -> dict[AlarmKind, Finding]:
        series = self._series.setdefault(instance_id, _Series())
        rule = {kind: rule_of(kind, instance_id, rules) for kind in OF_INSTANCES}
        view = told.quota.get(instance_id)
        produce, consume = (None, None) if view is None else (view.produce, view.consume)
        closed = self._gateways.closed_by_worker(instance_id) if told.gateways_report else None
        refused, wrong = (
            None
            if closed is None
            else {
                worker: Count(one.boot_id, sum(one.causes.get(cause, 0) for cause in causes))
                for worker, one in closed.items()
            }
            for causes in (_REFUSED, _WRONG)
        )
        ill = told.ill.get(place.cluster_id)
        bill = None if told.bills is None else told.bills.get(instance_id)
        kinds = AlarmKind
        of = rule.__getitem__
        return {
            kinds.THROTTLED_PRODUCE: alarm_figures.throttled(
                series.produce, view, produce, of(kinds.THROTTLED_PRODUCE), now_ms
            ),
            kinds.THROTTLED_CONSUME: alarm_figures.throttled(
                series.consume, view, consume, of(kinds.THROTTLED_CONSUME), now_ms
            ),
            kinds.FULL: alarm_figures.full(series.stored, view, of(kinds.FULL), now_ms),
            kinds.UNKNOWN_ADDRESS: alarm_figures.counted(
                series.refused,
                refused,
                told.heard,
                "refused connections",
                of(kinds.UNKNOWN_ADDRESS),
                now_ms,
                self._last_refused(instance_id),
            ),
            kinds.WRONG_PASSWORDS: alarm_figures.counted(
                series.wrong, wrong, told.heard, "failed logins", of(kinds.WRONG_PASSWORDS), now_ms
            ),
            kinds.LAG_GROWING: alarm_figures.lag_growing(self._lags.seen.get(instance_id), now_ms),
            kinds.LAG_SECONDS: alarm_figures.lag_seconds(
                self._lags.seen.get(instance_id), of(kinds.LAG_SECONDS), now_ms
            ),
            kinds.BILL_ABOVE: alarm_figures.bill_above(
                *(
                    (None, "", 0)
                    if bill is None
                    else (bill.total_minor, bill.currency, bill.minor_unit_digits)
                )
            ),
            kinds.CLUSTER_TROUBLE: Finding(0, "its cluster can be used")
            if ill is None
            else Finding(1, ill.cause.sentence),
            kinds.BROKER_SILENT: alarm_figures.silent_brokers(view),
        }

    def _last_refused(self, instance_id: str) -> str:
        refusals = self._gateways.refusals(instance_id)
        return f", the last from {refusals[0].address}" if refusals else ""

    async def _month_bills(self, now_ms: int) -> Mapping[str, Bill] | None:
        """This month's bills so far, by instance; None: there are none, or they cannot be read now."""
        asked_ms = self._bills_asked_ms
        if asked_ms is None or now_ms - asked_ms >= _BILLS_EVERY_MS:
            self._bills_asked_ms = now_ms
            month = f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y-%m}"
            try:
                bills = await self._bills.of_month(month)
            except Unavailable:
                bills = None
            self._bills_of = None if bills is None else {one.instance_id: one for one in bills}
        return self._bills_of

    def _of_brokers(self, clusters: list[ClusterSpec]) -> list[tuple[AlarmKind, str, Finding]]:
        """Our own; those of an Apache Kafka are their cluster's trouble."""
        now_ms = monotonic_ms()
        ages: dict[tuple[str, int], int] = {}
        for one in self._feed.followers().values():
            if one.broker is not None:
                place = (one.broker[0], one.broker[1].node_id)
                age_ms = 0 if one.is_live(now_ms) else now_ms - one.seen_ms
                ages[place] = min(age_ms, ages.get(place, age_ms))
        found = []
        for spec in clusters:
            for broker in spec.brokers if spec.engine is Engine.BUILTIN else ():
                subject = f"{spec.cluster_id}/{broker.node_id}"
                age_ms_of = ages.get((spec.cluster_id, broker.node_id))
                found.append((AlarmKind.BROKER_SILENT, subject, _silence(f"broker {subject}", age_ms_of)))
        return found

    def _of_gateways(self) -> list[tuple[AlarmKind, str, Finding]]:
        now_ms = monotonic_ms()
        found = []
        for name, one in self._feed.followers().items():
            age_ms = 0 if one.is_live(now_ms) else now_ms - one.seen_ms
            if one.kind is ConsumerKind.GATEWAY and age_ms < FORGET_AFTER_MS:
                found.append((AlarmKind.GATEWAY_SILENT, name, _silence(f"gateway {name}", age_ms)))
        return found

    def _of_certificates(self, now_ms: int) -> list[tuple[AlarmKind, str, Finding]]:
        return [
            (AlarmKind.CERTIFICATE_ENDS, name, _days_left(path, now_ms))
            for name, path in self._certificates().items()
        ]


def _silence(who: str, age_ms: int | None) -> Finding:
    if age_ms is None:
        return Finding(None, f"{who} was not heard of since this control process started")
    if age_ms == 0:
        return Finding(0, f"{who} follows the feed")
    return Finding(1, f"{who} was heard of {age_ms // 1000} s ago")


def _of_clusters(
    clusters: list[ClusterSpec], ill: Mapping[str, Illness]
) -> list[tuple[AlarmKind, str, Finding]]:
    """Those of Apache Kafka; brokers of our own tell of themselves."""
    return [
        (
            AlarmKind.CLUSTER_TROUBLE,
            spec.cluster_id,
            Finding(0, "it can be used")
            if spec.cluster_id not in ill
            else Finding(1, f"{ill[spec.cluster_id].cause}: {ill[spec.cluster_id].says}"),
        )
        for spec in clusters
        if spec.engine is Engine.APACHE
    ]


def _days_left(path: Path, now_ms: int) -> Finding:
    try:
        first = x509.load_pem_x509_certificates(path.read_bytes())[0]
    except (OSError, ValueError, IndexError) as error:
        return Finding(None, f"{path.name} cannot be read: {error}")
    left_s = first.not_valid_after_utc.timestamp() - now_ms / 1000
    return Finding(
        round(left_s / _DAY_S, 1), f"{path.name} is good until {first.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    )


def certificate_files(tls_certificate: Path | None, credentials_dir: Path | None) -> dict[str, Path]:
    """The certificates on this machine: what gateways show clients, and what clusters are entered with.
    Blocks."""
    found: dict[str, Path] = {}
    if tls_certificate is not None and tls_certificate.is_file():  # gateways alone may have it
        found["gateways"] = tls_certificate
    if credentials_dir is not None and credentials_dir.is_dir():
        for each in sorted(credentials_dir.iterdir()):
            if (each / CERTIFICATE_FILE).is_file():
                found[f"cluster {each.name}"] = each / CERTIFICATE_FILE
    return found
