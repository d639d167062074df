"""What followers told one control process, for the others that share its database.

Only what was heard directly is told on, with its age, so that nobody lives on in rumours.
"""

from collections.abc import Sequence

import msgspec

from contracts.holdings import HoldingsReport
from contracts.specs import BrokerAddress, ConsumerKind, DamagedLog, GatewayReport
from tenants.client_reports import SharedClientReports
from tenants.feed import Feed
from tenants.found import FoundLedger
from tenants.purge_rule import FORGET_AFTER_MS
from tenants.rules.acknowledgement import Consumer
from tenants.rules.client_reports import HeardClient
from tenants.shared_ledger import SharedLedger


class ToldConsumer(msgspec.Struct, frozen=True, kw_only=True):
    """One follower of the feed."""

    name: str
    kind: ConsumerKind
    feed_id: str
    applied_revision: int
    failures: dict[str, str]
    objections: dict[str, str]
    age_ms: int
    damaged_logs: tuple[DamagedLog, ...] = ()
    cluster_id: str | None = None
    address: BrokerAddress | None = None


class ToldGateway(msgspec.Struct, frozen=True, kw_only=True):
    """The last report of a gateway worker."""

    report: GatewayReport
    age_ms: int


class ToldHoldings(msgspec.Struct, frozen=True, kw_only=True):
    """The last report of what somebody holds and does not serve."""

    report: HoldingsReport
    age_ms: int


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one process was told."""

    consumers: tuple[ToldConsumer, ...] = ()
    gateways: tuple[ToldGateway, ...] = ()
    holdings: tuple[ToldHoldings, ...] = ()
    clients: tuple[HeardClient, ...] = ()
    """Those that told something of themselves within the last seconds."""


class Hearsay:
    """Between the ledgers of one process and the text that the others read. Any thread may call."""

    def __init__(
        self, feed: Feed, gateways: SharedLedger, found: FoundLedger, clients: SharedClientReports
    ) -> None:
        self._feed = feed
        self._gateways = gateways
        self._found = found
        self._clients = clients

    def tell(self, now_ms: int) -> str:
        """What this process heard itself; `now_ms` is monotonic."""
        told = Told(
            consumers=tuple(
                _told(name, one, now_ms)
                for name, one in list(self._feed.consumers.items())
                if one.polls_open or now_ms - one.seen_ms < FORGET_AFTER_MS
            ),
            gateways=tuple(
                ToldGateway(report=report, age_ms=now_ms - seen_ms)
                for report, seen_ms in self._gateways.reports()
            ),
            holdings=tuple(
                ToldHoldings(report=report, age_ms=now_ms - seen_ms)
                for report, seen_ms in self._found.reports(now_ms)
            ),
            clients=tuple(self._clients.told_lately(now_ms)),
        )
        return msgspec.json.encode(told).decode()

    def hear(self, others: Sequence[tuple[str, int]], now_ms: int) -> None:
        """What other processes told, each with how long ago it said so."""
        consumers: dict[str, Consumer] = {}
        for text, age_ms in others:
            try:
                told = msgspec.json.decode(text, type=Told)
            except msgspec.MsgspecError:
                continue  # another release tells it in other words; its followers are in the database too
            said_ms = now_ms - age_ms
            for one in told.consumers:
                known = consumers.get(one.name)
                if known is None or known.seen_ms < said_ms - one.age_ms:
                    consumers[one.name] = _heard(one, said_ms)
            for gateway in told.gateways:
                self._gateways.hear(gateway.report, said_ms - gateway.age_ms)
            for holder in told.holdings:
                self._found.hear(holder.report, said_ms - holder.age_ms)
            self._clients.hear(told.clients, said_ms)
        self._feed.hear(consumers)


def _told(name: str, one: Consumer, now_ms: int) -> ToldConsumer:
    cluster_id, address = one.broker or (None, None)
    return ToldConsumer(
        name=name,
        kind=one.kind,
        feed_id=one.feed_id,
        applied_revision=one.applied_revision,
        failures=dict(one.failures),
        objections=dict(one.objections),
        age_ms=0 if one.polls_open else now_ms - one.seen_ms,
        damaged_logs=one.damaged_logs,
        cluster_id=cluster_id,
        address=address,
    )


def _heard(one: ToldConsumer, said_ms: int) -> Consumer:
    is_known = one.cluster_id is not None and one.address is not None
    return Consumer(
        kind=one.kind,
        applied_revision=one.applied_revision,
        feed_id=one.feed_id,
        failures=one.failures,
        objections=one.objections,
        seen_ms=said_ms - one.age_ms,
        damaged_logs=one.damaged_logs,
        broker=(one.cluster_id, one.address) if is_known else None,  # type: ignore[arg-type]
    )
