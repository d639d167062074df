"""Invented activity of a site: the events of one span of time, drawn from a seed.

Sizes follow from the number of events, so that a short run looks like a thinned long one. Times are epoch ms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
_PAGES: Final = tuple(
    [f"/{name}" for name in ("home", "news", "deals", "help", "cart")]
    + [f"/products/{number}" for number in range(1, 301)]
    + [f"/articles/{number}" for number in range(1, 196)]
)
_QUERIES: Final = ("red shoes", "rain coat", "coffee", "head phones", "bicycle", "tent", "desk lamp", "novel")
_TEXTS: Final = (
    "a fine day",
    "look at this",
    "does anyone know a good cafe",
    "new shoes",
    "we won",
    "back home",
)
_SERVICES: Final = ("checkout", "search", "catalog", "login")
_HOSTS_PER_SERVICE: Final = 3
_SAMPLES: Final = 20
"""Requests that one report of service metrics tells of."""
OFFICE_IP: Final = "198.51.100.7"
OFFICE_USERS: Final = 20
"""Many people behind one address: busy, and not to be taken for an attack."""
# Requests by the hour of the day, UTC: quiet nights, two peaks.
_DAY: Final = (3, 2, 1, 1, 1, 2, 4, 7, 10, 12, 12, 11, 10, 10, 11, 11, 11, 12, 14, 16, 17, 14, 9, 5)
_PAGES_PER_SESSION: Final = 6.0
_THINK_MS: Final = 25_000
_ATTACK_MS: Final = 10 * MINUTE_MS
_ATTEMPTS: Final = 240
_LOGINS_PER_ATTACK: Final = 600


@dataclass(frozen=True)
class Plan:
    """What to invent."""

    events: int
    """Events of all topics together, before duplicates and damage; a few less may come out."""
    start_ms: int
    span_ms: int
    seed: int

    @property
    def users(self) -> int:
        """How many people the site has."""
        return max(50, self.events // 20)


class Attack(NamedTuple):
    """A source that hammers: an address, or an account that many addresses try."""

    rule: str
    """`ip` or `account`: which source gives it away."""
    source: str
    start_ms: int
    end_ms: int
    attempts: int


class Incident(NamedTuple):
    """A service that fails and is slow for a while."""

    service: str
    start_ms: int
    end_ms: int


class Stream(NamedTuple):
    """One topic's events."""

    topic: str
    ts: Ints
    """When each one happened, epoch ms."""
    fields: pa.Table
    """Their other fields but `id`, the one that is the record's key first; null: left out."""


class World(NamedTuple):
    """All events of a plan, and who behaved badly in it."""

    plan: Plan
    streams: tuple[Stream, ...]
    attacks: tuple[Attack, ...]
    incident: Incident


def invent(plan: Plan) -> World:
    """A world of a plan: the same plan gives the same world."""
    rng = np.random.default_rng(plan.seed)
    users = [user_text(number) for number in range(plan.users)]
    logins, attacks = _logins(plan, users, rng)
    metrics, incident = _metrics(plan, rng)
    page_views = _page_views(plan, users, rng)
    streams = (page_views, _posts(plan, users, rng), _follows(plan, users, rng), logins, metrics)
    return World(plan, streams, attacks, incident)


def _chosen(among: Sequence[str], numbers: npt.NDArray[np.generic]) -> pa.DictionaryArray:
    """Texts by their numbers; null for a negative one."""
    codes = numbers.astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(among, pa.string()))


def times(plan: Plan, count: int, rng: np.random.Generator) -> Ints:
    """Moments of the span, more of them in the busy hours."""
    edges = np.linspace(0, plan.span_ms, 1441)
    hours = ((plan.start_ms + edges[:-1]) / HOUR_MS) % 24
    density = np.interp(hours, np.arange(25), [*_DAY, _DAY[0]])
    cumulated = np.concatenate(([0.0], np.cumsum(density)))
    drawn = np.interp(rng.random(count) * cumulated[-1], cumulated, edges)
    moments: Ints = (plan.start_ms + np.minimum(drawn, plan.span_ms - 1)).astype(np.int64)
    return moments


def popular(count: int, among: int, rng: np.random.Generator, exponent: float = 1.1) -> Ints:
    """Numbers below `among` by Zipf's law: the first few are most of them."""
    weights = np.arange(1, among + 1, dtype=np.float64) ** -exponent
    cumulated = np.cumsum(weights)
    found = np.searchsorted(cumulated, rng.random(count) * cumulated[-1])
    chosen: Ints = np.minimum(found, among - 1).astype(np.int64)
    return chosen


def _page_views(plan: Plan, users: Sequence[str], rng: np.random.Generator) -> Stream:
    count = int(plan.events * 0.70)
    sizes = rng.geometric(1 / _PAGES_PER_SESSION, max(1, int(count / _PAGES_PER_SESSION * 1.3) + 10))
    sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), count)) + 1]
    session = np.repeat(np.arange(len(sizes)), sizes)[:count]
    think = rng.lognormal(np.log(_THINK_MS), 0.9, len(session))
    first = np.concatenate(([True], session[1:] != session[:-1])) if len(session) else np.zeros(0, bool)
    think[first] = 0
    passed = np.cumsum(think)
    since = passed - np.maximum.accumulate(np.where(first, passed, 0))
    ts = times(plan, len(sizes), rng)[session] + since.astype(np.int64)
    inside = ts < plan.start_ms + plan.span_ms
    kept = int(inside.sum())
    user = popular(len(sizes), plan.users, rng)[session][inside]
    page = popular(kept, len(_PAGES), rng)
    query = np.where(rng.random(kept) < 0.08, rng.integers(0, len(_QUERIES), kept), -1)
    fields = {
        "user": _chosen(users, user),
        "session": pc.binary_join_element_wise("s", pa.array(session[inside]).cast(pa.string()), ""),
        "page": _chosen(_PAGES, page),
        "kind": _chosen(("view", "search"), query >= 0),
        "query": _chosen(_QUERIES, query),
    }
    return Stream("page_views", ts[inside], pa.table(fields))


def _posts(plan: Plan, users: Sequence[str], rng: np.random.Generator) -> Stream:
    count = int(plan.events * 0.02)
    ts = np.sort(times(plan, count, rng))
    fields = {
        "author": _chosen(users, popular(count, plan.users, rng, 0.8)),
        "text": _chosen(_TEXTS, np.arange(count) % len(_TEXTS)),
    }
    return Stream("posts", ts, pa.table(fields))


def _follows(plan: Plan, users: Sequence[str], rng: np.random.Generator) -> Stream:
    """Most edges are there early; one event in ten takes an edge back."""
    count = int(plan.events * 0.03)
    early = rng.random(count) < 0.7
    ts = np.where(early, plan.start_ms + rng.random(count) * plan.span_ms * 0.1, times(plan, count, rng))
    ts = np.sort(ts.astype(np.int64))
    follower = rng.integers(0, plan.users, count)
    followee = popular(count, plan.users, rng, 0.8)
    unfollow = (rng.random(count) < 0.1) & (np.arange(count) > 0)
    earlier = (rng.random(count) * np.arange(count)).astype(np.int64)
    follower = np.where(unfollow, follower[earlier], follower)
    followee = np.where(unfollow, followee[earlier], followee)
    fields = {
        "follower": _chosen(users, follower),
        "followee": _chosen(users, followee),
        "action": _chosen(("follow", "unfollow"), unfollow),
    }
    return Stream("follows", ts, pa.table(fields))


def _logins(plan: Plan, users: Sequence[str], rng: np.random.Generator) -> tuple[Stream, tuple[Attack, ...]]:
    """People log in evenly; attackers hammer for ten minutes each."""
    count = int(plan.events * 0.12)
    attacks = min(3, count // _LOGINS_PER_ATTACK)
    normal = count - attacks * _ATTEMPTS
    account = rng.integers(0, plan.users, normal)
    found = [
        {
            "ts": times(plan, normal, rng),
            "account": account,
            # 0 is the office, n the home of user n - 1, negative ones attackers
            "ip": np.where(account < OFFICE_USERS, 0, account + 1),
            "ok": rng.random(normal) < 0.96,
        }
    ]
    told = []
    for number in range(attacks):
        tried, attack = _attack(plan, number, rng)
        found.append(tried)
        told.append(attack)
    columns = {name: np.concatenate([one[name] for one in found]) for name in found[0]}
    numbers, of_number = np.unique(columns["ip"], return_inverse=True)
    fields = {
        "account": _chosen(users, columns["account"]),
        "ip": _chosen([ip_text(number) for number in numbers.tolist()], of_number),
        "ok": columns["ok"],
    }
    return Stream("logins", columns["ts"], pa.table(fields)), tuple(told)


def _attack(
    plan: Plan, number: int, rng: np.random.Generator
) -> tuple[dict[str, npt.NDArray[np.generic]], Attack]:
    """Attacks in turn: one address tries many accounts, many addresses try one account."""
    length = min(_ATTACK_MS, plan.span_ms // 4)
    start = plan.start_ms + int(rng.random() * (plan.span_ms - length))
    by_ip = number % 2 == 0
    ips = np.full(_ATTEMPTS, -(number + 1)) if by_ip else -1000 - rng.integers(0, 200, _ATTEMPTS)
    victim = int(rng.integers(OFFICE_USERS, plan.users))
    accounts = rng.integers(0, plan.users, _ATTEMPTS) if by_ip else np.full(_ATTEMPTS, victim)
    columns: dict[str, npt.NDArray[np.generic]] = {
        "ts": start + (rng.random(_ATTEMPTS) * length).astype(np.int64),
        "account": accounts,
        "ip": ips,
        "ok": np.zeros(_ATTEMPTS, bool),
    }
    rule, source = ("ip", ip_text(-(number + 1))) if by_ip else ("account", user_text(victim))
    return columns, Attack(rule, source, start, start + length, _ATTEMPTS)


def _metrics(plan: Plan, rng: np.random.Generator) -> tuple[Stream, Incident]:
    """Every host reports at even intervals; one service has an incident at two thirds of the span."""
    hosts = len(_SERVICES) * _HOSTS_PER_SERVICE
    count = int(plan.events * 0.13)
    number = np.arange(count)
    step = plan.span_ms * hosts / max(1, count)
    ts = plan.start_ms + ((number // hosts + (number % hosts) / hosts) * step).astype(np.int64)
    ts = np.minimum(ts, plan.start_ms + plan.span_ms - 1)
    start = plan.start_ms + int(plan.span_ms * 0.66) // MINUTE_MS * MINUTE_MS
    incident = Incident(
        _SERVICES[plan.seed % len(_SERVICES)], start, start + max(8 * MINUTE_MS, plan.span_ms // 36)
    )
    service = number % len(_SERVICES)
    ill = (service == _SERVICES.index(incident.service)) & (ts >= incident.start_ms) & (ts < incident.end_ms)
    errors = rng.binomial(_SAMPLES, np.where(ill, 0.35, 0.004))
    latency = rng.lognormal(np.log(40), 0.5, (count, _SAMPLES)) * np.where(ill, 14, 1)[:, None]
    host = number // len(_SERVICES) % _HOSTS_PER_SERVICE
    hosts_of = [f"{name}-{host}" for name in _SERVICES for host in range(_HOSTS_PER_SERVICE)]
    fields = {
        "service": _chosen(_SERVICES, service),
        "host": _chosen(hosts_of, service * _HOSTS_PER_SERVICE + host),
        "requests": np.full(count, _SAMPLES),
        "errors": errors,
        "latency_ms": pa.FixedSizeListArray.from_arrays(np.round(latency, 1).ravel(), _SAMPLES),
    }
    return Stream("service_metrics", ts, pa.table(fields)), incident


def user_text(number: int) -> str:
    """A user's or account's name."""
    return f"u{number:06d}"


def ip_text(number: int) -> str:
    """The office, people's homes, and attackers' networks."""
    if number == 0:
        return OFFICE_IP
    if number > 0:
        return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return f"203.0.113.{-number}" if number > -1000 else f"192.0.2.{-number - 1000}"
