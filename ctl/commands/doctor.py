"""`portico doctor`: what is wrong on this machine or with this stack, and what to do about it."""

import json
import logging
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from contracts.units import counted, format_bytes
from ctl.cluster_client import ClusterReach, with_cluster
from ctl.console_client import Console
from ctl.errors import CommandError
from ctl.output import Answer, terminal
from ctl.stack.cluster import OWN, planned, remembered
from ctl.stack.layout import Layout, is_free
from ctl.stack.packages import can_install
from ctl.stack.settings import load, of_json
from ctl.stack.zookeeper import class_path, is_installed, is_serving, java_program, listens
from ctl.tools.certificate_findings import cluster_findings, gateway_findings
from ctl.tools.cluster_check import check
from ctl.tools.findings import Finding
from gateway.certificates import TlsFiles
from runtime.config import ConfigFault, Resolved, format_host_port, parse_host_port
from runtime.logs import configure
from runtime.process import OTHERS, raise_file_limit
from tenants.rules.vports import VipPool, parse_vip

_DISK_FREE_BYTES_MIN: Final = 1_000_000_000
_FILES_MIN: Final = 4096
_HEALTH_TIMEOUT_S: Final = 5.0
"""A console that says nothing for so long, not even how it is, stands still."""
_VPORTS_USED_MAX: Final = 0.8
_DAMAGED_SHOWN: Final = 10
_ALONE: Final = (
    "there is no other replica: consumers get CORRUPT_MESSAGE there; restore the files, or move groups "
    "behind it (`portico group reset-offsets`)"
)
_REPLICATED: Final = (
    "fetched anew from the leader in a minute; where this broker leads it, restart the broker"
)
_MARKS: Final = {"ok": "[green]ok  [/]", "warn": "[yellow]warn[/]", "bad": "[red]bad [/]"}


def doctor(
    reach: ClusterReach,
    in_cluster: Annotated[
        bool,
        typer.Option("--cluster", help="Check the cluster's brokers, partitions and ZooKeeper (operators)."),
    ] = False,
    zookeeper: Annotated[
        str | None, typer.Option(metavar="HOST:PORT[/CHROOT]", help="With --cluster and --bootstrap.")
    ] = None,
) -> Answer:
    """Check ports, disk, limits, versions and the running stack; exit code 1 when something is wrong."""
    if in_cluster:
        configure("doctor", level=logging.ERROR)
        findings = with_cluster(reach, lambda cluster: check(cluster, reach, zookeeper))
    else:
        data_dir = reach.data_dir
        findings = [
            *_machine(data_dir),
            *_permissions(data_dir),
            *_settings_and_ports(data_dir),
            *_certificates(data_dir),
            *_stack(data_dir),
        ]
    code = 1 if any(finding.level == "bad" for finding in findings) else 0
    return Answer([finding._asdict() for finding in findings], lambda: _show(findings), code)


def _show(findings: Iterable[Finding]) -> None:
    for finding in findings:
        advice = f" - {finding.advice}" if finding.advice else ""
        said = escape(f"{finding.subject}: {finding.found}{advice}")
        terminal(markup=True).print(f"{_MARKS[finding.level]} {said}")


def _machine(data_dir: Path) -> Iterator[Finding]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)
    yield Finding("ok" if good else "bad", "python", version, "" if good else "use Python 3.11 to 3.13")
    files = raise_file_limit()
    enough = files >= _FILES_MIN
    advice = "" if enough else "raise it (ulimit -n): each connection costs two files"
    yield Finding(
        "ok" if enough else "warn", "open files", f"{files}, for about {files // 2 - 100} clients", advice
    )
    parent = next(path for path in (data_dir.resolve(), *data_dir.resolve().parents) if path.exists())
    free = shutil.disk_usage(parent).free
    roomy = free >= _DISK_FREE_BYTES_MIN
    advice = "" if roomy else "free space, or name another --data-dir; a full disk stops producers"
    yield Finding("ok" if roomy else "bad", "disk", f"{format_bytes(free)} free at {parent}", advice)
    writable = os.access(parent, os.W_OK)
    if not writable:
        yield Finding(
            "bad", "data directory", f"{parent} is not writable", "change its owner or name another"
        )


def _permissions(data_dir: Path) -> Iterator[Finding]:
    """Records, keys and logs are for the owner alone."""
    if data_dir.exists() and data_dir.stat().st_mode & OTHERS:
        found = f"{data_dir} is open to other users of this machine"
        yield Finding(
            "warn", "data directory", found, f"chmod go= {data_dir}, or start as its owner: up does it"
        )


def _settings_and_ports(data_dir: Path) -> Iterator[Finding]:
    try:
        settings = load(data_dir, {})
    except ConfigFault as fault:
        for sentence in fault.faults:
            yield Finding("bad", "settings", sentence, "see `portico config show`")
        return
    yield Finding("ok", "settings", "readable")
    if Layout(data_dir).stack_file.exists():
        return
    yield from _zookeeper_installed(data_dir, {name: found.value for name, found in settings.items()})
    host, port = settings["console"].value
    free = is_free(port, host)
    advice = "" if free else "another program listens there: use --console HOST:PORT"
    found = f"{format_host_port(host, port)} is {'free' if free else 'taken'}"
    yield Finding("ok" if free else "bad", "console port", found, advice)


def _certificates(data_dir: Path) -> Iterator[Finding]:
    """Those of the running stack, else those that the next start would have."""
    try:
        settings = _settings_of_stack(data_dir) or load(data_dir, {})
    except ConfigFault:  # a finding of the settings
        return
    now = datetime.now(UTC)
    names = [settings[name].value for name in ("tls_cert", "tls_key", "tls_client_ca")]
    certificate, key, authority = (Path(name) if name else None for name in names)
    if certificate is not None and key is not None:
        yield from gateway_findings(TlsFiles(certificate, key, authority), _told_host(settings), now)
    domain, own = settings["sni_domain"].value, [settings[name].value for name in ("sni_cert", "sni_key")]
    if domain is not None and certificate is not None and key is not None:
        pair = [Path(name) for name in own if name is not None] or [certificate, key]
        yield from gateway_findings(TlsFiles(*pair), f"*.{domain}", now)
    yield from cluster_findings(Layout(data_dir).credentials_dir, now)


def _settings_of_stack(data_dir: Path) -> Mapping[str, Resolved] | None:
    """None: no stack runs here, or one of another version."""
    try:
        return of_json(json.loads(Layout(data_dir).stack_file.read_text())["settings"])
    except (OSError, ValueError, KeyError):
        return None


def _vip_pool(settings: Mapping[str, Resolved]) -> VipPool:
    return parse_vip(settings["vip"].value, *settings["vports"].value)


def _told_host(settings: Mapping[str, Resolved]) -> str | None:
    """The one that clients are told; None: there are several."""
    pool = _vip_pool(settings)
    told = {pool.advertised_for(host) for host in pool.hosts}
    return told.pop() if len(told) == 1 else None


def _zookeeper_installed(data_dir: Path, values: dict[str, object]) -> Iterator[Finding]:
    if planned(values, remembered(Layout(data_dir))).zookeeper != OWN:
        return
    try:
        yield Finding("ok", "zookeeper", _installed())
    except CommandError as error:
        yield Finding("bad", "zookeeper", error.sentence)


def _installed() -> str:
    if not is_installed() and can_install():
        return "`up` installs it and starts it"
    class_path()
    return f"installed, runs with {java_program()}"


def _stack(data_dir: Path) -> Iterator[Finding]:
    try:
        stack = json.loads(Layout(data_dir).stack_file.read_text())
    except FileNotFoundError:
        yield Finding("ok", "stack", f"none runs on {data_dir}", "start one with `portico up`")
        return
    except (OSError, ValueError) as error:
        yield Finding("bad", "stack", f"its file cannot be read: {error}", "start the stack again")
        return
    if not _alive(stack["supervisor"]):
        yield Finding(
            "bad", "stack", "its supervisor is gone", "start it again with `portico up`; data is kept"
        )
        return
    for group, pids in stack["pids"].items():
        living = len([pid for pid in pids if _alive(pid)])
        wanted = _brokers_wanted(data_dir) if group == "brokers" else 1
        if wanted == 0:
            continue
        level = "ok" if living >= wanted else "bad"
        found = f"{living} of {wanted} running" if living < wanted else f"{living} running"
        advice = "" if level == "ok" else f"it is being restarted: see the logs in {data_dir / 'logs'}"
        yield Finding(level, group, found, advice)
    for name, restart in stack.get("restarts", {}).items():
        when = f"{datetime.fromtimestamp(restart['at_ms'] / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        found = f"was started again {restart['count']} times, last at {when}: it {restart['reason']}"
        yield Finding("warn", name, found, f"see {Layout(data_dir).log_file(name)}")
    if stack["zookeeper"] is not None:
        yield from _zookeeper(stack["zookeeper"])
    yield from _console(data_dir)


def _brokers_wanted(data_dir: Path) -> int:
    cluster = remembered(Layout(data_dir))
    return cluster.brokers if cluster else 1


def _zookeeper(hosts: str) -> Iterator[Finding]:
    """Whether each server answers; one that forbids `ruok` but listens is taken for alive."""
    for address in hosts.partition("/")[0].split(","):
        host, port = parse_host_port(address)
        if is_serving(host, port):
            yield Finding("ok", "zookeeper", f"answers at {address}")
        elif listens(host, port):
            found = f"listens at {address}, but does not answer `ruok`"
            yield Finding("warn", "zookeeper", found, "it hangs, or its 4lw.commands.whitelist lacks ruok")
        else:
            advice = "brokers serve on, but no leader changes until it is back: see its log"
            yield Finding("bad", "zookeeper", f"nobody answers at {address}", advice)


def _console(data_dir: Path) -> Iterator[Finding]:
    try:
        with Console.of(data_dir, timeout_s=_HEALTH_TIMEOUT_S) as console:
            health = console.get("health")
        with Console.of(data_dir, "*") as console:
            instances = console.all_items("instances")
            absent = console.get("absent-instances")["items"] if health.get("absent_instances") else []
            deleted = console.all_items("deleted-instances")
            told = console.get("brokers")
            faults = console.get("faults")["items"]
    except CommandError as error:
        yield Finding("bad", "console", error.sentence, f"see {data_dir / 'logs' / 'control.log'}")
        return
    level = "ok" if health["status"] == "ok" else "warn"
    yield Finding(level, "console", health["status"], "" if level == "ok" else _why_degraded(health))
    yield from _redis(health.get("redis"))
    yield from injected_fault_findings(faults)
    for cluster in told["clusters"]:
        yield from _cluster(cluster)
    for broker in told["items"]:
        yield from damaged_log_findings(broker)
    for item in instances:
        yield from _instance(item)
    pool = _pool(data_dir)
    if pool is not None:
        ways = sum(len(item.get("security_protocols", ["plain"])) for item in [*instances, *deleted])
        yield from vport_findings(pool, ways * (len(told["items"]) + 1))
    yield from _absent(absent)
    yield from _deleted(deleted)


def injected_fault_findings(faults: list[Any]) -> Iterator[Finding]:
    """What clients of an instance feel because its tenant wants them to: looked at before anything else."""
    for one in faults:
        fault = one["fault"]
        subject = f"instance {one['instance_name']} of {one['tenant']}"
        found = (
            f"its tenant injects {fault['summary']} until {fault['ends_at'][:19]}Z ({fault['started_by']})"
        )
        advice = (
            f"its clients' trouble may be this; end it: portico fault stop {fault['instance']} {fault['id']}"
        )
        yield Finding("warn", subject, found, advice)


def _cluster(cluster: Any) -> Iterator[Finding]:
    """An Apache Kafka: whether it can be used, and what it does not give."""
    if cluster["engine"] != "apache":
        return
    subject = f"cluster {cluster['cluster_id']}"
    if cluster["trouble"]:
        advice = "its instances wait for it; nothing is removed meanwhile. See docs/backends.md"
        yield Finding("bad", subject, f"Apache Kafka: {cluster['trouble']}", advice)
    else:
        yield Finding("ok", subject, f"Apache Kafka, {counted(cluster['brokers'] or 0, 'broker')}")
    for lack in cluster["lacks"]:
        yield Finding("warn", subject, lack, "see docs/backends.md")


def _redis(state: str | None) -> Iterator[Finding]:
    """Nothing depends on it: what is lost is speed, and limits hold for each control process by itself."""
    if state == "ok":
        yield Finding("ok", "redis", "answers")
    elif state == "full":
        advice = (
            "give it more memory, or a policy that evicts; limits and series are each process's own meanwhile"
        )
        yield Finding("warn", "redis", "is full: it stores nothing new", advice)
    elif state is not None:
        advice = "everything goes on without it, limits and series are each control process's own meanwhile"
        yield Finding("warn", "redis", f"is not used: {state}", advice)


def damaged_log_findings(broker: Any) -> Iterator[Finding]:
    """What its broker knows to be lost or damaged; see docs/operations.md for each way on."""
    subject = f"broker {broker['node_id']}"
    for one in broker["damaged_logs"][:_DAMAGED_SHOWN]:
        name = f"{one['topic']}-{one['partition']}"
        whose = f" of instance {one['instance_id']}" if one["instance_id"] else ""
        offsets = f"offsets {one['first_offset']} to {one['next_offset'] - 1}"
        if one["kind"] == "end":
            found = f"{name}{whose} had lost its end when it was opened: {offsets} were acknowledged"
            advice = "their producers may have to send them again; other records have these offsets now"
        else:
            found = f"{name}{whose}: {offsets} are lost or damaged ({one['kind']})"
            advice = _ALONE if one["replicas"] == 1 else _REPLICATED
        yield Finding("bad", subject, found, advice)
    more = len(broker["damaged_logs"]) - _DAMAGED_SHOWN
    if more > 0:
        yield Finding("bad", subject, f"{more} more damaged ranges", "see the brokers page and its log")


def _why_degraded(health: Any) -> str:
    parts = []
    if not health.get("brokers_live"):
        parts.append("no broker is registered")
    if not any(gateway["live"] for gateway in health.get("gateways") or []):
        parts.append("no gateway follows the feed")
    if health.get("quota_master") is False:
        parts.append("the quota master does not answer")
    if health.get("absent_instances"):
        parts.append("instances are absent")
    return ", ".join(parts) or "see the console's log"


def _instance(item: Any) -> Iterator[Finding]:
    subject = f"instance {item['name']} ({item['id']})"
    if item["state"] == "failed":
        yield Finding(
            "bad", subject, f"failed: {item['state_reason']}", "free the port, or delete and create it anew"
        )
    elif item.get("blocked"):
        yield Finding(
            "warn", subject, "full, producers blocked", "delete records, shorten retention or resize"
        )


def _pool(data_dir: Path) -> VipPool | None:
    """The running stack's; None: another machine's stack is looked at."""
    settings = _settings_of_stack(data_dir)
    return None if settings is None else _vip_pool(settings)


def vport_findings(pool: VipPool, needed: int) -> Iterator[Finding]:
    """Whether the next instances and the next broker find vports. Those at rest are not counted."""
    found = f"about {needed:,} of {pool.size:,} in use"
    if needed < pool.size * _VPORTS_USED_MAX:
        yield Finding("ok", "vports", found)
    else:
        yield Finding("warn", "vports", found, "widen --vports, or give --vip a CIDR: see docs/ports.md")


def _absent(items: list[Any]) -> Iterator[Finding]:
    """Data that the console's database does not know: it was exchanged, restored or lost."""
    for item in items:
        stored = f"{format_bytes(item['stored_bytes'])} in {counted(item['partitions'], 'partition')}"
        subject = f"instance {item['name'] or 'of unknown name'} ({item['id']})"
        if item["purged"]:
            advice = f"`portico instance purge {item['id']} --yes` removes it"
            yield Finding("warn", subject, f"was purged, and {stored} are left", advice)
        else:
            advice = "`portico instance adopt` or `discard`; see docs/operations.md, The console's database"
            yield Finding("bad", subject, f"absent: not served, {stored} are kept", advice)


def _deleted(items: list[Any]) -> Iterator[Finding]:
    """What is due and cannot be purged; the rest waits as it should."""
    for item in items:
        if item["waits_for"] is not None:
            subject = f"instance {item['name']} ({item['id']})"
            yield Finding("warn", subject, f"deleted, its purge waits for: {item['waits_for']}")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
