"""What a drill does to a stack. Each fault is undone at the end of its block, however that ends, and yields
its sign: a look at the stack that says in a sentence what operators see, once they can see it."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from ctl.drills.relay import Relay
from ctl.drills.site import PARTITIONS, Site
from ctl.drills.timeline import Timeline
from ctl.errors import CommandError
from ctl.stack.layout import free_port
from ctl.stack.processes import broker_name
from ctl.stack.zookeeper import is_serving
from runtime.config import parse_host_port

Sign = Callable[[], str | None]
_KILL_AGAIN_S: Final = 0.1
_FILL_PIECE: Final = bytes(1_000_000)
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def _paused(site: Site, timeline: Timeline, process: str) -> Iterator[None]:
    pid = site.pid(process)
    os.kill(pid, signal.SIGSTOP)
    timeline.tell("fault", f"{process} (pid {pid}) stands still: SIGSTOP")
    try:
        yield
    finally:
        try:
            os.kill(pid, signal.SIGCONT)
            timeline.tell("undo", f"{process} goes on: SIGCONT")
        except ProcessLookupError:
            timeline.tell(
                "undo", f"{process} was killed as one that hangs, and started again by the supervisor"
            )


@contextmanager
def control(site: Site, timeline: Timeline) -> Iterator[Sign]:
    """Console, feed and quota master stand still."""
    with _paused(site, timeline, "control"):
        yield lambda: "the console does not answer" if site.ask("health") is None else None


@contextmanager
def zookeeper(site: Site, timeline: Timeline) -> Iterator[Sign]:
    """The stack's own ZooKeeper stands still, for longer than the brokers' sessions."""
    host, port = parse_host_port(str(site.facts()["zookeeper"]).partition("/")[0])
    with _paused(site, timeline, "zookeeper"):
        yield lambda: None if is_serving(host, port) else f"nobody answers at {host}:{port}"


@contextmanager
def gateway(site: Site, timeline: Timeline) -> Iterator[Sign]:
    """One worker is killed whenever it serves."""
    name = min(each for each in site.facts()["metrics"] if each.startswith("gateway-"))
    stop = threading.Event()

    def kill_again() -> None:
        killed = None
        while not stop.wait(_KILL_AGAIN_S):
            pid = site.layout.pid_of(name)
            if pid not in (None, killed):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    timeline.tell("fault", f"{name} (pid {pid}) is killed: SIGKILL")
                killed = pid

    def sign() -> str | None:
        found = site.facts()["restarts"].get(name)
        return found and f"the supervisor has started {name} again {found['count']} times"

    killer = threading.Thread(target=kill_again)
    killer.start()
    try:
        yield sign
    finally:
        stop.set()
        killer.join()
        timeline.tell("undo", f"{name} is left alone; the supervisor starts it again")


@contextmanager
def broker(site: Site, timeline: Timeline) -> Iterator[Sign]:
    """The broker that leads the drill's first partition stands still."""
    victim = site.leader()
    with _paused(site, timeline, broker_name(victim)):
        yield _moved(site, victim)


def _moved(site: Site, victim: int) -> Sign:
    def sign() -> str | None:
        found = [(p["leader"], p["isr"]) for p in site.partitions()]
        if not found or any(leader in (None, -1, victim) for leader, _isr in found):
            return None
        return f"the partitions are led by {', '.join(map(str, sorted({each[0] for each in found})))}"

    return sign


@contextmanager
def two_brokers(site: Site, timeline: Timeline) -> Iterator[Sign]:
    """All brokers but one stand still: too few replicas for acks=all."""
    left = site.leader()
    with contextlib.ExitStack() as stack:
        for node_id in _brokers(site):
            if node_id != left:
                stack.enter_context(_paused(site, timeline, broker_name(node_id)))
        yield (
            lambda: (
                f"only broker {left} is in sync"
                if (found := site.partitions()) and all(p["isr"] == [left] for p in found)
                else None
            )
        )


@contextmanager
def offline(site: Site, timeline: Timeline) -> Iterator[Sign]:
    """Everybody in the ISR stands still; who lives fell behind before."""
    behind = site.leader()
    rest = [node_id for node_id in _brokers(site) if node_id != behind]
    with contextlib.ExitStack() as stack:
        with _paused(site, timeline, broker_name(behind)):
            site.until(
                lambda: (
                    len(found := site.partitions()) == PARTITIONS
                    and all(behind not in p["isr"] and p["leader"] in rest for p in found)
                ),
                f"broker {behind} to leave the ISR",
            )
            for node_id in rest:
                stack.enter_context(_paused(site, timeline, broker_name(node_id)))
        yield (
            lambda: (
                "the partitions have no leader"
                if (found := site.partitions()) and all(p["leader"] in (None, -1) for p in found)
                else None
            )
        )


def _brokers(site: Site) -> list[int]:
    found = sorted(int(each["node_id"]) for each in site.facts()["brokers"])
    if len(found) < PARTITIONS:
        raise CommandError(f"this drill needs {PARTITIONS} brokers that serve, not {len(found)}")
    return found


@contextmanager
def master(site: Site, timeline: Timeline) -> Iterator[Sign]:
    """Control stands still while another quota master waits to be elected."""
    facts = site.facts()
    port = free_port()
    policy = f"http://127.0.0.1:{port}/internal/v1/policy"
    headers = {"Authorization": f"Bearer {site.layout.ensure_secret()}"}

    def elected() -> str | None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(policy, headers=headers, timeout=2, trust_env=False).is_success:
                return "the other master is elected, and brokers report to it"
        return None

    def serves() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return bool(httpx.get(policy, headers=headers, timeout=2, trust_env=False).status_code)
        return False

    with (
        tempfile.TemporaryDirectory(prefix="portico-drill-") as name,
        _second_master(site, facts, port, Path(name)),
    ):
        site.until(serves, "a second quota master")
        timeline.tell("fault", f"a second quota master waits at 127.0.0.1:{port}")
        with _paused(site, timeline, "control"):
            yield elected
        timeline.tell("undo", "the second quota master ends")


@contextmanager
def _second_master(site: Site, facts: dict[str, object], port: int, directory: Path) -> Iterator[None]:
    settings = facts["settings"]
    assert isinstance(settings, dict)
    with (directory / "master.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "runtime.start", "master", "--data-dir", str(directory / "master")),
                *("--control", str(facts["internal"]), "--secret-file", str(site.layout.secret_file)),
                *("--zookeeper", str(facts["zookeeper"]), "--listen", f"127.0.0.1:{port}"),
                *("--session-timeout-ms", str(settings["session_timeout_ms"]["value"])),
                *("--quota-policy", str(settings["quota_policy"]["value"])),
                *("--report-period-ms", str(settings["report_period_ms"]["value"])),
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the drill, which ends it
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def redis(site: Site, timeline: Timeline) -> Iterator[Sign]:
    """Nobody reaches Redis."""

    def sign() -> str | None:
        health, listed = site.ask("health"), site.ask("instances")
        if health is None or listed is None or not listed.is_success:
            return None
        state = health.json()["redis"]
        return f"the console answers without Redis ({state})" if state != "ok" else None

    with _cut(site.relays["redis"], timeline, "Redis"):
        yield sign


@contextmanager
def postgres(site: Site, timeline: Timeline) -> Iterator[Sign]:
    """Nobody reaches Postgres."""

    def sign() -> str | None:
        answer = site.ask("instances")
        if answer is None or answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            return None
        return f"the console answers 503, try again in {answer.headers['retry-after']} s"

    with _cut(site.relays["postgres"], timeline, "Postgres"):
        yield sign


@contextmanager
def _cut(relay: Relay, timeline: Timeline, what: str) -> Iterator[None]:
    relay.cut()
    timeline.tell("fault", f"the way to {what} is cut: connections break, new ones are refused")
    try:
        yield
    finally:
        relay.mend()
        timeline.tell("undo", f"the way to {what} is open again")


@contextmanager
def disk(site: Site, timeline: Timeline) -> Iterator[Sign]:
    """The disk of the broker that leads the drill's first partition is full."""
    victim = site.leader()
    name = broker_name(victim)
    # the disk is mounted in the stack's own namespace
    logs = Path(f"/proc/{site.pid(name)}/root{site.layout.broker_dir(victim).resolve()}/logs")
    filler = logs.with_name("logs") / "drill.filler"
    try:
        size = _fill(filler)
        timeline.tell("fault", f"the disk of {name} is filled with {size // 10**6} MB")
        yield _moved(site, victim)
    finally:
        filler.unlink(missing_ok=True)
        timeline.tell("undo", f"the disk of {name} has room again")
    pid = site.pid(name)
    os.kill(pid, signal.SIGTERM)
    site.until(lambda: site.layout.pid_of(name) not in (None, pid), f"{name} to start again")
    timeline.tell("repair", f"{name} is started again, as the runbook says: it tries its directory anew")


def _fill(path: Path) -> int:
    """Write until there is no room; returns the bytes."""
    size = 0
    with path.open("wb", buffering=0) as filler:
        while True:
            try:
                size += filler.write(_FILL_PIECE)
            except OSError as error:
                if error.errno in _FULL:
                    return size
                raise
