"""Asks a cluster what `cluster_findings` judges."""

import asyncio
import email.utils
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import httpx
from kio.schema.describe_log_dirs.v2.request import DescribeLogDirsRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.request import MetadataRequest

from broker.metadata.znode_paths import BROKER_IDS, broker_path
from broker.metadata.znodes import ZnodeDamaged, decode_registration
from contracts.tree import TreeUnavailable
from ctl.cluster_client import Cluster, Reach
from ctl.errors import CommandError
from ctl.stack.layout import Layout
from ctl.tools.cluster_findings import (
    BrokerFacts,
    ZooKeeperFacts,
    broker_findings,
    partition_findings,
    reassignment_findings,
    transaction_findings,
    zookeeper_findings,
)
from ctl.tools.findings import Finding
from ctl.tools.partitions import rows_of
from ctl.tools.reassignment import ongoing
from ctl.tools.topic_admin import configs_of, min_isr
from ctl.tools.transactions import find_hanging
from runtime.clock import epoch_ms
from runtime.kafka_client import KafkaUnavailable

if TYPE_CHECKING:
    from runtime.tree.zookeeper import ZooKeeperTree

_OWN: Final = "own"
_SESSION_TIMEOUT_MS: Final = 6_000
_TIMEOUT_S: Final = 5.0
_TRANSACTION_TIMEOUT_MS_MAX: Final = 15 * 60 * 1000
"""Kafka's default of transaction.max.timeout.ms."""


async def check(cluster: Cluster, reach: Reach, zookeeper: str | None) -> list[Finding]:
    """Everything that can be asked. What fails is itself a finding."""
    stack = _stack(reach)
    findings: list[Finding] = []
    address = zookeeper or stack.get("zookeeper")
    try:
        metadata = await cluster.metadata()
    except CommandError as error:
        findings.append(
            Finding("bad", "brokers", error.sentence, "start them: `portico up`, or see their logs")
        )
    else:
        live = list(cluster.addresses)
        facts = await asyncio.gather(*(_ask_broker(cluster, broker, stack) for broker in live))
        findings += broker_findings(stack.get("expected", live), facts)
        rows = rows_of(metadata)
        try:
            configs = await configs_of(cluster, sorted({row.topic for row in rows}))
            needed = {row.topic: min_isr(configs.get(row.topic, {}), len(row.replicas)) for row in rows}
            findings += partition_findings(rows, live, needed)
            findings += reassignment_findings(len(await ongoing(cluster)))
            led = [row for row in rows if not row.is_unavailable]
            findings += transaction_findings(
                await find_hanging(
                    cluster, led, now_ms=epoch_ms(), timeout_max_ms=_TRANSACTION_TIMEOUT_MS_MAX
                )
            )
        except (CommandError, KafkaUnavailable) as error:
            findings.append(Finding("bad", "controller", str(error), "look again in a few seconds"))
    if address is not None:
        findings += zookeeper_findings(await _ask_zookeeper(address, reach.secret()))
    return findings


def _stack(reach: Reach) -> dict[str, Any]:
    """What the data directory knows of its own cluster; nothing of one that was named by --bootstrap."""
    if reach.bootstrap is not None:
        return {}
    layout = Layout(reach.data_dir)
    known: dict[str, Any] = {"data_dir": reach.data_dir}
    try:
        kept = json.loads(layout.cluster_file.read_text())
        ports = json.loads(layout.ports_file.read_text())
        known["expected"] = range(1, int(kept["brokers"]) + 1)
        own = f"127.0.0.1:{ports.get('zookeeper')}" if kept["zookeeper"] == _OWN else kept["zookeeper"]
        known["zookeeper"] = own
        known["metrics"] = json.loads(layout.stack_file.read_text())["metrics"]
    except (OSError, ValueError, KeyError):
        return known  # the findings about brokers say what is wrong
    return known


async def _ask_broker(cluster: Cluster, broker: int, stack: dict[str, Any]) -> BrokerFacts:
    began = monotonic()
    request = MetadataRequest(
        topics=(),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    try:
        answer = await cluster.ask(broker, request, timeout_s=_TIMEOUT_S)
        answer_ms = 1000 * (monotonic() - began)
        directories = await cluster.ask(broker, DescribeLogDirsRequest(topics=()), timeout_s=_TIMEOUT_S)
    except KafkaUnavailable as error:
        return BrokerFacts(broker, None, failure=str(error))
    failed = tuple(one.log_dir for one in directories.results if one.error_code is not ErrorCode.none)
    metrics = stack.get("metrics", {}).get(f"broker-{broker}")
    return BrokerFacts(
        broker,
        int(answer.controller_id),
        answer_ms,
        failed_directories=failed,
        clock_skew_ms=None if metrics is None else await _clock_skew_ms(str(metrics)),
        free_share=_free_share(stack, broker),
    )


async def _clock_skew_ms(metrics: str) -> int | None:
    """Skew by the whole seconds of the Date of its answer, be it a refusal; None when it does not tell."""
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=_TIMEOUT_S) as http:
            answer = await http.get(metrics)
        date = email.utils.parsedate_to_datetime(answer.headers["date"])
    except (httpx.HTTPError, KeyError, ValueError):
        return None
    behind_ms = epoch_ms() - round(date.timestamp() * 1000)
    return 0 if 0 <= behind_ms < 1000 else -behind_ms  # the Date is cut to a second


def _free_share(stack: dict[str, Any], broker: int) -> float | None:
    data_dir: Path | None = stack.get("data_dir")
    if data_dir is None or not (directory := Layout(data_dir).broker_dir(broker)).exists():
        return None
    usage = shutil.disk_usage(directory)
    return usage.free / usage.total


async def _ask_zookeeper(address: str, secret: str | None) -> ZooKeeperFacts:
    from runtime.tree.zookeeper import ZooKeeperTree  # kazoo: a tenth of a second for every other command

    began = monotonic()
    try:
        tree = ZooKeeperTree(address, _SESSION_TIMEOUT_MS, secret)
        await tree.start()
    except TreeUnavailable as error:
        return ZooKeeperFacts(address, str(error) or "no session could be opened")
    session_ms = 1000 * (monotonic() - began)
    try:
        began = monotonic()
        brokers = await tree.children(BROKER_IDS) or []
        read_ms = 1000 * (monotonic() - began)
        return ZooKeeperFacts(address, None, session_ms, read_ms, await _unclean(tree, brokers))
    except TreeUnavailable as error:
        return ZooKeeperFacts(address, str(error))
    finally:
        await tree.aclose()


async def _unclean(tree: "ZooKeeperTree", brokers: Sequence[str]) -> tuple[int, ...]:
    nodes = await tree.get_many([broker_path(int(one)) for one in brokers])
    found = []
    for broker, node in zip(brokers, nodes, strict=True):
        try:
            if node is not None and decode_registration(node.data).is_unclean:
                found.append(int(broker))
        except ZnodeDamaged:
            continue
    return tuple(sorted(found))
