"""The stack that a drill hurts, and what the drill has on it: an instance, a topic, a producer, a group."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import httpx
from confluent_kafka import Consumer

from ctl.console_client import Console, remove_instance
from ctl.demo.clients import create_topic
from ctl.drills.relay import Relay
from ctl.errors import CommandError
from ctl.stack.layout import Layout

TOPIC: Final = "drill"
PARTITIONS: Final = 3
_ASK_S: Final = 3.0
_LOOK_S: Final = 0.2
_ORDER: Final = {
    "produce_rate_bytes_per_s": 4_000_000,
    "consume_rate_bytes_per_s": 40_000_000,
    "capacity_bytes": 1_000_000_000,
    "whitelist": ["127.0.0.0/8"],
}


@dataclass
class Site:
    """A running stack of this machine."""

    layout: Layout
    url: str
    key: str
    relays: dict[str, Relay] = field(default_factory=dict)
    """Before stores, by kind, where the drill started the stack."""
    instance_id: str = ""
    bootstrap: str = ""

    def facts(self) -> dict[str, Any]:
        """The stack file as it is now."""
        found: dict[str, Any] = json.loads(self.layout.stack_file.read_text())
        return found

    def console(self) -> Console:
        """The console, as its operator sees it."""
        return Console.at(self.url, self.key)

    def ask(self, path: str) -> httpx.Response | None:
        """GET /v1/PATH; None when nobody answers in time."""
        headers = {"Authorization": f"Bearer {self.key}"}
        try:
            return httpx.get(f"{self.url}/v1/{path}", headers=headers, timeout=_ASK_S, trust_env=False)
        except httpx.HTTPError:
            return None

    def pid(self, process: str) -> int:
        """The id of a process by its name. Raises: CommandError when it does not run."""
        pid = self.layout.pid_of(process)
        if process == "zookeeper":  # writes no run file
            pid = next(iter(self.facts()["pids"].get("zookeeper", ())), None)
        if pid is None:
            raise CommandError(f"there is no {process} on this stack")
        return pid

    def partitions(self) -> list[Any]:
        """The topic's partitions with `leader`, `isr` and `replicas`; empty while nobody knows."""
        answer = self.ask("cluster/partitions?limit=1000")
        if answer is None or not answer.is_success:
            return []
        found = answer.json()["items"]
        return [one for one in found if one["instance_id"] == self.instance_id and one["topic"] == TOPIC]

    def leader(self) -> int:
        """The leader of partition 0."""
        return int(
            self.until(
                lambda: next((p["leader"] for p in self.partitions() if not p["partition"]), None), "a leader"
            )
        )

    def until(self, look: Callable[[], Any], what: str, within_s: float = 60.0) -> Any:
        """What a look finds, once it is something. Raises: CommandError."""
        deadline = time.monotonic() + within_s
        while True:
            if found := look():
                return found
            if time.monotonic() > deadline:
                raise CommandError(f"the drill waited {within_s:.0f} s in vain for {what}")
            time.sleep(_LOOK_S)


@contextmanager
def tenant_of(site: Site) -> Iterator[None]:
    """The drill's own instance and topic, removed at the end."""
    with site.console() as console:
        made = console.call("POST", "instances", {"name": f"drill-{time.time_ns() % 10**9}", **_ORDER})
        site.instance_id = str(made["id"])
        try:
            site.bootstrap = str(console.wait_until_serving(site.instance_id)["bootstrap_servers"])
            create_topic(site.bootstrap, TOPIC, PARTITIONS)
            yield
        finally:
            site.until(lambda: site.ask("health"), "the console to answer")
            remove_instance(console, site.instance_id)


class GroupReader:
    """A consumer group of one that follows the topic, and how long it went without a record."""

    def __init__(self, bootstrap: str, topic: str, config: Mapping[str, Any]) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "drill",
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 500,
                **config,
            }
        )
        self._consumer.subscribe([topic])
        self._stop = threading.Event()
        self._seen_s: list[float] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.is_set():
            if any(message.error() is None for message in self._consumer.consume(1000, 0.1)):
                self._seen_s.append(time.monotonic())
        self._consumer.close()

    def __enter__(self) -> "GroupReader":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def silence_s(self, since_s: float) -> float:
        """The longest time without a record since a moment."""
        times = [since_s, *(at for at in self._seen_s if at > since_s), time.monotonic()]
        return max(later - earlier for earlier, later in pairwise(times))
