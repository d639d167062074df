"""What Redis saves two control processes for each thing that it does, counted: who asks, request limits, live
series, wake-ups. Without it the same is asked, so that every figure stands beside its like.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import httpx
from sqlalchemy import Engine

from ctl.bench.control_processes import START_S, Caller, Control, transactions
from ctl.bench.measure import Say, Spread
from ctl.errors import CommandError

T = TypeVar("T")
_ASKED: Final = 600
"""Requests whose transactions are counted."""
_BURST_SHARE: Final = 1.2
"""The part of its quota that a key sends to each process at once."""
_COMMITS: Final = 5
_POLL_MS: Final = 20_000
_QUIET_MS: Final = 500
_SERIES_S: Final = 25.0
"""Longer than the master keeps its series for itself."""
_SETTLED_S: Final = 1.2
"""Sessions tell the server of their last transactions within this."""


def of_requests(
    engine: Engine, both: Sequence[Control], callers: Sequence[Caller], say: Say
) -> dict[str, object]:
    """Who asks, limits, wake-ups. The processes serve on."""
    say("callers with keys, then with sessions")
    keys = [{"Authorization": f"Bearer {each.key}"} for each in callers]
    by_key = _cost(engine, both, keys)
    by_session = _cost(engine, both, _logins(both))
    say("a key beyond its quota, at both")
    let_through, by_limited = _limits(engine, both)
    say("changes that the other process hears of")
    heard_ms = list(_heard_after_ms(both, callers[0]))
    return {
        "who asks, a key: transactions per request": by_key,
        "who asks, a session: transactions per request": by_session,
        "request limits: let through of what a key may send": let_through,
        "request limits: transactions per request, beyond who asks": by_limited - by_key,
        "wake-ups: from a change to the poll at the other process, ms": Spread.of(heard_ms),
    }


def _cost(engine: Engine, both: Sequence[Control], heads: Sequence[dict[str, str]]) -> float:
    """Transactions of a request that asks the database for nothing but its caller."""
    clients = [
        httpx.Client(base_url=each.url, headers=head, trust_env=False, timeout=30)
        for each in both
        for head in heads
    ]
    try:
        for client in clients:
            client.get("me").raise_for_status()  # a key's use is noted once a minute
        time.sleep(_SETTLED_S)
        began_s, before = time.monotonic(), transactions(engine)
        time.sleep(2 * _SETTLED_S)
        idle_per_s = (transactions(engine) - before) / (time.monotonic() - began_s)
        began_s, before = time.monotonic(), transactions(engine)
        for number in range(_ASKED):
            clients[number % len(clients)].get("me").raise_for_status()
        time.sleep(_SETTLED_S)
        took_s = time.monotonic() - began_s
        return max(0.0, transactions(engine) - before - idle_per_s * took_s) / _ASKED
    finally:
        for client in clients:
            client.close()


def _logins(both: Sequence[Control]) -> list[dict[str, str]]:
    """A session made at each process, as the head of a request."""
    heads = []
    with both[0].operator() as operator:
        reset = operator.post("members/admin/reset-password").raise_for_status().json()
    for each in both:
        login = {"user": "admin", "password": reset["password"]}
        answer = httpx.post(f"{each.url}session", json=login, trust_env=False, timeout=30).raise_for_status()
        heads.append({"Cookie": answer.headers["set-cookie"].partition(";")[0]})
    return heads


def _limits(engine: Engine, both: Sequence[Control]) -> tuple[float, float]:
    """A new key sends more than its quota to each process at once: what was let through of what it may send
    in that time, and the transactions of a request."""
    name = f"burst-{secrets.token_hex(4)}"
    with both[0].operator() as operator:
        operator.post("tenants", json={"name": name}).raise_for_status()
        made = operator.post("keys", params={"tenant": name}, json={"name": "k", "role": "viewer"})
    head = {"Authorization": f"Bearer {made.raise_for_status().json()['secret']}"}
    first = httpx.get(f"{both[0].url}me", headers=head, trust_env=False, timeout=30)
    requests, window_s = _quota(first.headers["ratelimit-policy"])
    time.sleep(_SETTLED_S)
    began_s, before = time.monotonic(), transactions(engine)
    statuses = asyncio.run(_burst([each.url for each in both], head, round(_BURST_SHARE * requests)))
    took_s = time.monotonic() - began_s
    time.sleep(_SETTLED_S)
    let_through = statuses.count(200) / (requests * (1 + took_s / window_s))
    return let_through, (transactions(engine) - before) / len(statuses)


def _quota(policy: str) -> tuple[int, int]:
    """(requests, seconds) of the first quota of a RateLimit-Policy, which is the key's."""
    fields = dict(part.partition("=")[::2] for part in policy.split(",")[0].split(";")[1:])
    return int(fields["q"]), int(fields["w"])


async def _burst(urls: Sequence[str], head: dict[str, str], each_sends: int) -> list[int]:
    async def send(url: str, client: httpx.AsyncClient, turn: asyncio.Semaphore) -> int:
        async with turn:
            return (await client.get(f"{url}me")).status_code

    async with httpx.AsyncClient(headers=head, trust_env=False, timeout=60) as client:
        turns = {url: asyncio.Semaphore(8) for url in urls}
        asked = [send(url, client, turns[url]) for _ in range(each_sends) for url in urls]
        return await asyncio.gather(*asked)


class _Gateway:
    """Follows the feed of a process, as a gateway does."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._asks: dict[str, object] = {
            "consumer": "gateway-bench",
            "kind": "gateway",
            "applied_revision": 0,
        }

    def poll(self, wait_ms: int) -> bool:
        """Whether there was news."""
        asked = {**self._asks, "wait_ms": wait_ms}
        told = self._client.post("internal/v1/feed", json=asked).raise_for_status().json()
        had = self._asks["applied_revision"]
        self._asks |= {
            "feed_id": told["feed_id"],
            "applied_revision": told["revision"],
            "mark": told["mark"],
        }
        return bool(told["revision"] != had)

    def heard_at(self) -> float:
        """When there was news."""
        if not self.poll(_POLL_MS):
            raise CommandError("a change at one process was not heard of at the other")
        return time.perf_counter()


def _heard_after_ms(both: Sequence[Control], caller: Caller) -> Iterator[float]:
    """A gateway polls the one process, an instance is changed at the other."""
    writer, teller = both
    with teller.internal() as client, writer.operator() as operator, ThreadPoolExecutor(1) as pool:
        gateway = _Gateway(client)
        for number in range(_COMMITS):
            while gateway.poll(_QUIET_MS):
                pass
            heard = pool.submit(gateway.heard_at)
            time.sleep(_SETTLED_S + number * 0.17)  # a look once a second is met at any time of it
            change = {"capacity_bytes": 10**9 + 1 + secrets.randbelow(10**9)}
            operator.patch(f"instances/{caller.instance}", json=change).raise_for_status()
            changed_s = time.perf_counter()
            yield 1000 * max(0.0, heard.result() - changed_s)


def of_series(both: Sequence[Control], caller: Caller, say: Say) -> dict[str, object]:
    """How far a chart of live series goes back, beyond the kill of the quota master. The instances are quiet:
    of a stretch in which nothing changes, a chart has the ends only."""
    say("the quota master is killed")
    master = _until(lambda: next((each for each in both if each.is_master()), None))
    other = both[0] if master is both[1] else both[1]
    time.sleep(_SERIES_S)
    before = _until(lambda: _shown(other, caller) or None)
    master.kill()
    try:
        _until(lambda: other if other.is_master() else None)
        after = _until(lambda: _shown(other, caller) or None)
    finally:
        master.start()
    killed_ms = before[-1]
    return {
        "live series: a chart goes back before the kill, s": (killed_ms - before[0]) / 1000,
        "live series: the next quota master's, s": max(0, killed_ms - after[0]) / 1000,
    }


def _shown(control: Control, caller: Caller) -> list[int]:
    path = f"{control.url}instances/{caller.instance}/quota"
    head = {"Authorization": f"Bearer {caller.key}"}
    answer = httpx.get(path, params={"seconds": 600}, headers=head, trust_env=False, timeout=30)
    return list(answer.json()["history"]["at_ms"]) if answer.status_code == 200 else []


def _until(found: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + START_S
    while (one := found()) is None:
        if time.monotonic() > deadline:
            raise CommandError(f"no quota master after {START_S:.0f} s")
        time.sleep(0.1)
    return one
