"""Client metrics (KIP-714): what clients of an instance are asked to tell of themselves, and what they told.

A subscription is a config resource of Kafka's type CLIENT_METRICS, in its own three keys.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

SUBSCRIPTIONS_MAX: Final = 10
"""Subscriptions of one instance; one more is refused. All of them are told to every gateway and broker."""
SUBSCRIPTION_CHARS_MAX: Final = 4_000
"""Metrics and matches of one subscription as text: INVALID_CONFIG beyond."""
NAME_CHARS_MAX: Final = 100
"""The name of a subscription."""
INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000
INTERVAL_MS_DEFAULT: Final = 300_000
"""Kafka's, of a subscription that says nothing."""
VALUES_MAX: Final = 64
"""Metrics that are kept of one push, each as one number over all its labels."""
METRIC_CHARS_MAX: Final = 128
"""The name of a metric."""
TEXT_CHARS_MAX: Final = 128
"""What a client says of itself: its id, software, version, group, transactional id. Longer is cut."""

METRICS: Final = "metrics"
INTERVAL_MS: Final = "interval.ms"
MATCH: Final = "match"
DEFAULTS: Final = {METRICS: "", INTERVAL_MS: str(INTERVAL_MS_DEFAULT), MATCH: ""}
ALL: Final = "*"
MATCHED_BY: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
)
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")


class SubscriptionFault(Exception):  # noqa: N818 - states what is so
    """It cannot be taken; the text says why."""


class MetricsSubscription(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What some or all clients are to push, and how often. None: not set."""

    name: str
    metrics: tuple[str, ...] | None = None
    """Beginnings of names; `*`: all."""
    interval_ms: int | None = None
    match: tuple[str, ...] | None = None
    """`client_id=orders-.*`: whose values all match, in RE2; none: everybody."""

    @property
    def configs(self) -> dict[str, str]:
        """What is set, as Kafka's tools write it."""
        told = {}
        if self.metrics is not None:
            told[METRICS] = ",".join(self.metrics)
        if self.interval_ms is not None:
            told[INTERVAL_MS] = str(self.interval_ms)
        if self.match is not None:
            told[MATCH] = ",".join(self.match)
        return told

    @property
    def matches(self) -> dict[str, str]:
        """What is looked at -> the pattern."""
        return dict(map(_pair, self.match or ()))


def subscription(name: str, configs: Mapping[str, str]) -> MetricsSubscription:
    """Of what a tool sets. Patterns are compiled by who uses them. Raises: SubscriptionFault."""
    if not name or len(name) > NAME_CHARS_MAX or not _NAME.match(name):
        raise SubscriptionFault(
            f"the name of a subscription has 1 to {NAME_CHARS_MAX} letters, digits and . _ -"
        )
    unknown = configs.keys() - DEFAULTS.keys()
    if unknown:
        raise SubscriptionFault(f"Unknown client metrics configuration: {min(unknown)[:100]}")
    if sum(map(len, configs.values())) > SUBSCRIPTION_CHARS_MAX:
        raise SubscriptionFault(f"a subscription has at most {SUBSCRIPTION_CHARS_MAX} characters")
    made = MetricsSubscription(
        name=name,
        metrics=_items(configs, METRICS),
        interval_ms=None if INTERVAL_MS not in configs else _interval_ms(configs[INTERVAL_MS]),
        match=_items(configs, MATCH),
    )
    for one in made.match or ():
        if _pair(one)[0] not in MATCHED_BY:
            raise SubscriptionFault(f"Illegal client matching pattern: {one[:100]}; {', '.join(MATCHED_BY)}")
    return made


def _items(configs: Mapping[str, str], key: str) -> tuple[str, ...] | None:
    """A list as Kafka reads it: parted by commas, blanks around them aside, and each once."""
    if key not in configs:
        return None
    return tuple(dict.fromkeys(one.strip() for one in configs[key].split(",") if one.strip()))


def _interval_ms(text: str) -> int:
    number = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0
    if not INTERVAL_MS_MIN <= number <= INTERVAL_MS_MAX:
        raise SubscriptionFault(
            f"Invalid value {text[:20]} for {INTERVAL_MS}, interval must be between {INTERVAL_MS_MIN} and "
            f"{INTERVAL_MS_MAX} (1 hour)"
        )
    return number


def _pair(match: str) -> tuple[str, str]:
    key, _, pattern = match.partition("=")
    return (key.strip(), pattern.strip()) if pattern.strip() else ("", "")


class LostClient(msgspec.Struct, frozen=True, kw_only=True):
    """The connection by which a client told of itself last has ended, and it did not say that it ends. Java's
    clients seldom do: a producer that is closed with nothing in flight sends no last push."""

    client_instance_id: str
    """As Kafka's clients print it."""
    age_ms: int
    """Since it was heard last on that connection, when this is sent."""


class ClientReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one client of an instance has told last, through one gateway worker. All of it is its own word
    but for the address."""

    client_instance_id: str
    """As Kafka's clients print it."""
    age_ms: int
    """Since it was here, when this is sent."""
    address: str
    client_id: str = ""
    software_name: str = ""
    software_version: str = ""
    group_id: str = ""
    transactional_id: str = ""
    push_interval_ms: int = 0
    is_last: bool = False
    """The client said that it ends."""
    values: dict[str, float] = {}
    """Kafka's name of a metric -> its number: of sums what was added since the push before, over all their
    labels; of others the highest."""
