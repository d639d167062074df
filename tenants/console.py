"""The control plane as one object: the store, its use cases, the feed, and what it asks of others."""

import asyncio
from collections.abc import Callable
from ipaddress import ip_network

import httpx
from sqlalchemy import Connection

from contracts.names import SYSTEM_INSTANCE_ID
from contracts.specs import ClusterSpec, ConsumerKind, Engine
from runtime.clock import epoch_ms, monotonic_ms
from runtime.internal_http import InternalClient
from runtime.redis_link import RedisLink, RedisUrl
from runtime.tasks import Supervised
from runtime.upstream import Upstreams
from tenants.alarm_lags import Lags
from tenants.alarm_runner import AlarmRunner
from tenants.alarm_sources import AlarmSources, certificate_files
from tenants.apache_watch import ApacheWatch
from tenants.backend.apache import ApacheCluster
from tenants.backend.cluster import Cluster, ConnectionPool
from tenants.backend.facts import FactsSource
from tenants.backend.group_lags import GroupLags
from tenants.client_reports import SharedClientReports
from tenants.config import ConsoleConfig
from tenants.decoding.decoder import Decoder
from tenants.decoding.registry import Schemas
from tenants.feed import Feed
from tenants.fleet import FleetSource
from tenants.found import Found, FoundLedger
from tenants.hashing import HashingLine
from tenants.hearsay import Hearsay
from tenants.mover import Mover
from tenants.oidc_provider import OidcProvider
from tenants.pipeline_tables import DeltaTables
from tenants.prometheus import Prometheus
from tenants.purge import Purge
from tenants.purge_rule import LATELY_MS
from tenants.quota import QuotaSource
from tenants.remembered import CallerMemory
from tenants.rules.callers import OpenStreams, RequestsUnderWay
from tenants.rules.cluster_health import Illness, illness
from tenants.rules.lifecycle import State
from tenants.rules.mail_settings import MailSettings
from tenants.rules.model import Instance
from tenants.rules.vports import Endpoint
from tenants.rules.webhooks import Kind
from tenants.series_reader import SeriesReader
from tenants.series_recorder import SeriesRecorder
from tenants.shared_ledger import SharedLedger
from tenants.shared_limits import LoginLimits, RequestRates
from tenants.store import followers, instances, registry
from tenants.store.engine import Store
from tenants.store.shared_session import Office, SharedSession, SoleOffice, others_live
from tenants.system_topics import SystemTopics
from tenants.tenant_http import TenantHttp
from tenants.topic_figures import TopicFigures
from tenants.topic_limits import TopicLimits
from tenants.usage_counter import UsageCounter
from tenants.usecases.access_keys import AccessKeys
from tenants.usecases.accounts import Accounts, Bootstrap
from tenants.usecases.advice import AdviceReports
from tenants.usecases.alarms import Alarms
from tenants.usecases.bills import BillReports
from tenants.usecases.ceilings import Ceilings
from tenants.usecases.clusters import Clusters
from tenants.usecases.costs import CostReports
from tenants.usecases.decodings import Decodings
from tenants.usecases.deletions import Deletions
from tenants.usecases.idempotency import Idempotency
from tenants.usecases.injected_faults import InjectedFaults
from tenants.usecases.instances import Instances
from tenants.usecases.mails import Mails
from tenants.usecases.members import Members
from tenants.usecases.messages import Messages
from tenants.usecases.moves import Moves
from tenants.usecases.operations import Operations
from tenants.usecases.pipeline_runs import PipelineRuns
from tenants.usecases.pipeline_schedules import PipelineSchedules
from tenants.usecases.placement import Placement, port_is_free
from tenants.usecases.series import Series
from tenants.usecases.sign_in import SignIn
from tenants.usecases.topics import Topics
from tenants.usecases.usage import UsageReports
from tenants.usecases.user_orders import UserOrders
from tenants.usecases.webhooks import Webhooks
from tenants.wakeups import WakeUps
from tenants.webhook_runner import MAIL_LANES, WebhookRunner
from tenants.webhook_sink import WebhookSink


class Console:
    """Everything that routes need. Made, bootstrapped, started; closed at the end.

    `master` calls the quota master. `is_free` says whether nobody else listens on an endpoint.
    `to_provider` stands in for the network to the identity provider.
    """

    def __init__(
        self,
        config: ConsoleConfig,
        master: InternalClient,
        *,
        is_free: Callable[[Endpoint], bool] = port_is_free,
        to_provider: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Opens and migrates the store. Raises: StoreUnavailable."""
        self.config = config
        self.store = Store.open(config.database_url)
        self.found = FoundLedger()
        self.placement = self._placement(is_free)
        self.feed = Feed(self.store, self.placement)
        self.redis = None if config.redis_url is None else _redis(config.redis_url, config.redis_budget_ms)
        limits, memory = LoginLimits(self.redis), CallerMemory(self.redis, config.secret)
        self.accounts = Accounts(self.store, limits, memory)
        self.members = Members(self.store, limits, memory)
        provider = None if config.oidc is None else OidcProvider(config.oidc, transport=to_provider)
        self.sign_in = SignIn(self.store, provider, limits, memory)
        self.rates = RequestRates(self.redis, config.rates)
        self.idempotency = Idempotency(self.store)
        self.access_keys = AccessKeys(self.store, config.secret)
        self.ceilings = Ceilings(self.store, config.disk_bytes)
        self.instances = self._instances()
        parts = self.store, self.placement, self.ceilings, self.feed.notify
        self.deletions = Deletions(*parts, deletion_grace_ms=config.deletion_grace_ms)
        self.registry = Clusters(self.store, self.feed.notify)
        self.faults = InjectedFaults(self.store, self.ceilings, self.feed.notify)
        self.pipeline_runs, self.pipeline_schedules = PipelineRuns(self.store), PipelineSchedules(self.store)
        self._tables = DeltaTables(config.tables_dir)
        self.usage = UsageReports(self._tables, self.store)
        self.costs = CostReports(self._tables, self.usage)
        self.bills, self.advice = BillReports(self._tables), AdviceReports(self._tables)
        self.user_orders = UserOrders(self.store, self.instances)
        self.gateways, self.client_reports = SharedLedger(), SharedClientReports()
        self.quota = QuotaSource(master)
        self.fleet = FleetSource(master, self.instances.names)
        self.topics = Topics(self.store, self.cluster)
        http = TenantHttp([ip_network(one) for one in config.webhook_ranges])
        self._decoder = Decoder()
        self.decodings = Decodings(self.store, config.secret, self._decoder, Schemas(http))
        self.messages = Messages(self.store, self.cluster, self.quota.is_full, self.decodings.reading)
        self.facts = FactsSource(self.cluster)
        self.lags, self.hashing = GroupLags(), HashingLine()
        self.streams, self.requests = OpenStreams(), RequestsUnderWay()
        self.closing = asyncio.Event()
        """Set when the process stops: live streams end by themselves."""
        self._pool = ConnectionPool(config.secret)
        self._upstreams = Upstreams(config.credentials_dir)
        upstreams = Upstreams(config.credentials_dir)
        self.apaches = ApacheWatch(self.store, upstreams, self.placement, self.feed.notify)
        self.shared = self._shared_session() if self.store.is_shared else None
        """With the other control processes of the same database."""
        self.office: Office = self.shared or SoleOffice()
        self.operations = Operations(self.store, lambda: list(self.feed.followers().values()), self.office)
        self.purge = self._purge()
        self.moves = self._moves()
        self.mover = Mover(self.moves, self.cluster, self.office)
        self.alarms, self.series = Alarms(self.store), Series(self.store)
        prometheus = None if config.series_prometheus is None else Prometheus(config.series_prometheus)
        self.series_reader = SeriesReader(self.series, prometheus)
        self.alarm_lags = Lags(self.cluster, self.lags)
        self.alarm_runner = self.alarm_runner_of(self.office)
        self.series_recorder = self._series_recorder()
        self.usage_counter = UsageCounter(self.store, self.cluster, self.office)
        self.webhooks = Webhooks(self.store, config.secret)
        self.webhook_runner = WebhookRunner(self.webhooks, WebhookSink(http), self.office)
        self.mails = Mails(self.store, limits, config.secret, config.mail)
        self.mail_runner = None if config.mail is None else self._mail_runner(config.mail)

    def _mail_runner(self, settings: MailSettings) -> WebhookRunner:
        from tenants.mail_sink import MailSink  # loads an SMTP client, which most deployments do without

        sink = MailSink(settings, self.mails.handed_over)
        return WebhookRunner(self.webhooks, sink, self.office, Kind.EMAIL, MAIL_LANES)

    def alarm_runner_of(self, office: Office) -> AlarmRunner:
        """Looks at alarms, and writes while `office` is held."""
        config, lags = self.config, self.alarm_lags
        sources = AlarmSources(
            self.quota,
            self.gateways,
            self.feed,
            self.bills,
            lags,
            clusters=self.clusters,
            illness=self.illness,
            certificates=lambda: certificate_files(config.tls_certificate, config.credentials_dir),
        )
        return AlarmRunner(self.alarms, sources, lags, office)

    def _series_recorder(self) -> SeriesRecorder:
        topics = TopicFigures(self.store, self.cluster, self.office)
        return SeriesRecorder(self.series, self.quota, self.gateways, self.alarm_lags, topics, self.office)

    def _purge(self) -> Purge:
        return Purge(
            self.store,
            self.gateways,
            self.cluster,
            office=self.office,
            ordered=self.feed.notify,
            started_at_ms=epoch_ms(),
        )

    def _instances(self) -> Instances:
        return Instances(
            self.store,
            self.placement,
            self.ceilings,
            self.feed.notify,
            deletion_grace_ms=self.config.deletion_grace_ms,
            serves_tls=self.config.serves_tls,
        )

    def _moves(self) -> Moves:
        return Moves(
            self.store,
            self.placement,
            self.ceilings,
            self.feed.notify,
            self.office,
            followed=self.feed.followers,
            unreachable=lambda: self.apaches.unreachable(),
        )

    def illness(self, cluster_id: str) -> Illness | None:
        """Why a cluster cannot be used now, as far as anybody told."""
        return illness(self.apaches.illness(cluster_id), self.gateways.troubles(cluster_id, monotonic_ms()))

    def _placement(self, is_free: Callable[[Endpoint], bool]) -> Placement:
        return Placement(
            self.config.vip_pool,
            self.config.default_cluster_id,
            is_free,
            reserved=self.found.endpoints,
            unreachable=lambda: self.apaches.unreachable(),
        )

    def bootstrap(self, operator_key: str) -> Bootstrap:
        """Prepare the store; before `start`. The admin's password is in the answer at the first start."""
        made = self.accounts.bootstrap(operator_key, self.config, is_alone=not self.store.is_shared)
        with self.store.write() as connection:
            if self.config.backend is not None:
                registry.set_bootstrap(
                    connection, self.config.default_cluster_id, self.config.backend, epoch_ms()
                )
            if not self._others_live(connection):
                self.placement.settle_hosts(connection, epoch_ms())
            system = instances.by_id(connection, SYSTEM_INSTANCE_ID)
            assert system is not None, "made just now"
            self.placement.extend(connection, system, epoch_ms())
        return made

    def withhold_taken_ports(self) -> list[Instance]:
        """Fail instances whose ports another program has. Only when no gateway of this stack runs, that
        is when the stack starts and not when just the control plane is started again, or one more."""
        with self.store.write() as connection:
            now_ms = epoch_ms()
            gateways = [one for one in followers.all_of(connection) if one.kind is ConsumerKind.GATEWAY]
            if self.store.is_shared and any(now_ms - one.heard_at_ms < LATELY_MS for one in gateways):
                return []
            return self.placement.withhold_taken_ports(connection, epoch_ms())

    def others_live(self) -> bool:
        """Whether another control process uses the same database now."""
        with self.store.read() as connection:
            return self._others_live(connection)

    def _others_live(self, connection: Connection) -> bool:
        return self.store.is_shared and others_live(connection, self.config.identity)

    def _shared_session(self) -> SharedSession:
        hearsay = Hearsay(self.feed, self.gateways, self.found, self.client_reports)
        return SharedSession(
            self.store,
            self.config.database_url,
            self.config.identity,
            tell=lambda: hearsay.tell(monotonic_ms()),
            hear=lambda others: hearsay.hear(others, monotonic_ms()),
            changed=self.feed.heard,
        )

    def start_feed(self, tasks: Supervised) -> None:
        """Start what serves the followers of the feed, on the loop that its polls come on."""
        self.feed.start()
        if self.shared is not None:
            self.shared.start()
        tasks.spawn("feed", self.feed.run)
        tasks.spawn("port-releases", lambda: self.feed.run_port_releases(self.office))
        tasks.spawn("injected-faults", lambda: self.faults.run(self.office))
        shared = self.shared
        told = (lambda: False) if shared is None else (lambda: shared.is_listening)
        tasks.spawn("wake-ups", WakeUps(self.redis, self.store, self.feed, database_tells=told).run)

    def start(self, tasks: Supervised) -> None:
        """Start what calls the brokers, on the loop of the console's routes."""
        tasks.spawn("purge", self.purge.run)
        tasks.spawn("moves", self.mover.run)
        tasks.spawn("apache", self.apaches.run)
        tasks.spawn("operations", self.operations.run)
        tasks.spawn("alarms", self.alarm_runner.run)
        tasks.spawn("lags", self.alarm_runner.run_lags)
        tasks.spawn("webhooks", self.webhook_runner.run)
        if self.mail_runner is not None:
            tasks.spawn("mails", self.mail_runner.run)
        tasks.spawn("system-topics", SystemTopics(self.store, self.cluster, self.office).run)
        tasks.spawn("series", self.series_recorder.run)
        tasks.spawn("topic-figures", self.series_recorder.topics.run)
        tasks.spawn("usage", self.usage_counter.run)
        tasks.spawn("topic-limits", TopicLimits(self.store, self.cluster, self.office).run)

    async def cluster(self, cluster_id: str) -> Cluster:
        """A cluster at the addresses its brokers registered."""

        def load() -> Cluster:
            with self.store.read() as connection:
                spec = registry.cluster(connection, cluster_id)
                if spec is not None and spec.engine is Engine.APACHE:
                    return ApacheCluster(self._pool, spec, self._upstreams.of(spec))
            return Cluster(self._pool, () if spec is None else spec.brokers)

        return await asyncio.to_thread(load)

    def absent(self) -> list[tuple[Found, State | None]]:
        """What is held of instances that the store does not know, or has purged; with where it has them.
        Blocks."""
        found = self.found.found(monotonic_ms())
        if not found:
            return []
        states = self.deletions.states(list(found))
        unserved = {key: states.get(key) for key in found if states.get(key) in (None, State.PURGED)}
        return [
            (found[key], state)
            for key, state in sorted(unserved.items())
            if state is None or found[key].partitions
        ]

    def clusters(self) -> list[ClusterSpec]:
        """Every cluster. Blocks."""
        with self.store.read() as connection:
            return registry.clusters(connection)

    def close(self) -> None:
        """Close connections, to brokers and the database."""
        if self.shared is not None:
            self.shared.close()
        self._pool.close()
        self.apaches.close()
        self._tables.close()
        self.messages.close()
        self._decoder.close()
        self.lags.times.close()
        if self.redis is not None:
            self.redis.close()
        self.store.close()


def _redis(url: RedisUrl, budget_ms: int) -> RedisLink:
    link = RedisLink(url, budget_ms=budget_ms)
    link.start()
    return link
