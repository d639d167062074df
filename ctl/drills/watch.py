"""Looks at a stack as Prometheus does: scrapes every process, and follows the alerts."""

import concurrent.futures
import json
from collections.abc import Iterator
from typing import Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

from ctl.drills.alert_rules import RULES
from ctl.drills.alerts import AlertWatch, Change, Sample, parsed
from ctl.drills.timeline import Timeline
from ctl.stack.layout import Layout
from runtime.metrics import scrape_token
from runtime.trusted import verify_of

_TIMEOUT_S: Final = 1.5
_METRICS: Final = frozenset(condition.metric for rule in RULES if (condition := parsed(rule.expression)))
_SHOWN: Final = 3


class Watch:
    """The alerts of one stack of this machine."""

    def __init__(self, layout: Layout, timeline: Timeline) -> None:
        self._layout = layout
        self._timeline = timeline
        self._headers = {"Authorization": f"Bearer {scrape_token(layout.ensure_secret())}"}
        self.alerts = AlertWatch(RULES, self._samples())

    def look(self) -> None:
        """Scrape all, and tell which alerts began or ended."""
        for change in self.alerts.look(self._samples()):
            self._timeline.tell("alert", said(change))

    def _samples(self) -> list[Sample]:
        endpoints = json.loads(self._layout.stack_file.read_text())["metrics"]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            return [
                each
                for found in pool.map(self._scrape, *zip(*endpoints.items(), strict=True))
                for each in found
            ]

    def _scrape(self, process: str, url: str) -> list[Sample]:
        labels = {"job": "portico", "process": process}
        try:
            answer = httpx.get(
                url, headers=self._headers, timeout=_TIMEOUT_S, trust_env=False, verify=verify_of(url)
            )
            text = answer.raise_for_status().text
        except httpx.HTTPError:
            return [Sample("up", {"instance": process, **labels}, 0)]
        return [Sample("up", {"instance": process, **labels}, 1), *_read(text, labels)]


def _read(text: str, labels: dict[str, str]) -> Iterator[Sample]:
    """The label `instance` of what is told stays, as with `honor_labels`."""
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in _METRICS:
                yield Sample(
                    sample.name, {"instance": labels["process"], **labels, **sample.labels}, sample.value
                )


def said(change: Change) -> str:
    """For people."""
    if not change.is_on:
        return f"{change.rule.alert} has ended"
    whose = [each.labels["instance"] for each in change.results if each.labels.get("instance")]
    names = f" ({', '.join(whose[:_SHOWN])}{', ...' if len(whose) > _SHOWN else ''})" if whose else ""
    wait_s = change.rule.for_s
    when = f"fires when it has lasted {wait_s // 60} min" if wait_s else "fires"
    return f"{change.rule.alert}{names}: {when}"
