"""Reads what clients push: OTLP metrics, in any of Kafka's codecs. Hostile bytes within bounds.

Protobuf takes 25 ms for a megabyte of the worst there is, and a Python step 1 us for an entry: so both
are bounded. Labels are not kept: of a metric there is one number.
"""

import contextlib
import math
import re
from collections.abc import Collection, Iterator
from typing import Final, TypeVar

from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from contracts.client_metrics import METRIC_CHARS_MAX, TEXT_CHARS_MAX, VALUES_MAX
from gateway.rules.client_metrics import PUSHED_BYTES_MAX, PushTooLarge, PushUnreadable, Read
from wire.compression import PayloadTooLarge, PayloadUnreadable, decompress

T = TypeVar("T")
ENTRIES_MAX: Final = 4_000
"""Resources, scopes, metrics, points and attributes of one push that are looked at. Of one that has more,
what comes first is taken, without the metric in which they end."""
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")
_TOLD: Final = ("group_id", "transactional_id")


def read_metrics(payload: bytes, codec: int, asked: tuple[str, ...]) -> Read:
    """The metrics that begin as `asked`. Raises: PushTooLarge, PushUnreadable."""
    try:
        plain = decompress(payload, codec, PUSHED_BYTES_MAX)
        data = MetricsData.FromString(bytes(plain))
    except PayloadTooLarge as fault:
        raise PushTooLarge from fault
    except (PayloadUnreadable, DecodeError) as fault:
        raise PushUnreadable from fault
    reader = _Reader(asked)
    with contextlib.suppress(_Enough):
        reader.read(data)
    return Read(len(plain), reader.values, reader.told)


class _Enough(Exception):  # noqa: N818 - states what is so
    """`ENTRIES_MAX` were looked at."""


class _Reader:
    """Of one push."""

    def __init__(self, asked: tuple[str, ...]) -> None:
        self._asked = asked
        self._left = ENTRIES_MAX
        self._labels: dict[str, int] = {}
        """Of the points that count."""
        self.values: dict[str, float] = {}
        self.told: dict[str, str] = {}

    def read(self, data: MetricsData) -> None:
        """Raises: _Enough, and what was read stands."""
        for resource in self._counted(data.resource_metrics):
            for attribute in self._counted(resource.resource.attributes):
                if attribute.key in _TOLD:
                    self.told[attribute.key] = attribute.value.string_value[:TEXT_CHARS_MAX]
            for scope in self._counted(resource.scope_metrics):
                for metric in self._counted(scope.metrics):
                    self._metric(metric)

    def _counted(self, entries: Collection[T]) -> Iterator[T]:
        for entry in entries:
            if not self._left:
                raise _Enough
            self._left -= 1
            yield entry

    def _metric(self, metric: Metric) -> None:
        name = metric.name
        if len(name) > METRIC_CHARS_MAX or not _NAME.match(name) or not name.startswith(self._asked):
            return
        kind = metric.WhichOneof("data")
        if kind not in ("gauge", "sum"):
            return
        if name not in self.values and len(self.values) >= VALUES_MAX:
            return
        try:
            for point in self._counted((metric.gauge if kind == "gauge" else metric.sum).data_points):
                which = point.WhichOneof("value")
                value = float(point.as_int) if which == "as_int" else point.as_double
                if which is not None and math.isfinite(value):
                    self._take(name, value, len(point.attributes), is_sum=kind == "sum")
        except _Enough:
            self.values.pop(name, None)  # a part of a sum would be another number
            raise

    def _take(self, name: str, value: float, labels: int, *, is_sum: bool) -> None:
        """Of points of several kinds, as Java has them for a client and for each of its topics, those with
        the fewest labels count: they hold the others."""
        fewest = self._labels.get(name)
        if fewest is None or labels < fewest:
            self._labels[name], self.values[name] = labels, value
        elif labels == fewest:
            before = self.values[name]
            self.values[name] = before + value if is_sum else max(before, value)
