"""A Prometheus that operators name, asked for series over HTTP (docs/adr/0090).

Whatever it does is bounded in time and bytes, no redirect is followed. A question that fails says nothing of
the next one, which may be another tenant's: each is asked.
"""

import asyncio
from collections import Counter
from ipaddress import ip_network
from typing import Final
from urllib.parse import urlencode

from runtime.logs import get_logger
from tenants.rules.prometheus_url import PrometheusUrl
from tenants.rules.series import Kind, Span
from tenants.rules.series_prometheus import (
    ANSWER_BYTES_MAX,
    ANSWER_MS_MAX,
    UNDER_WAY_MAX,
    UNDER_WAY_MAX_PER_TENANT,
    Note,
    Told,
    form_of,
    told_by,
)
from tenants.tenant_http import NoAnswer, Sent, TenantHttp

_log = get_logger(__name__)
_ANYWHERE: Final = tuple(ip_network(each) for each in ("0.0.0.0/0", "::/0"))
"""An operator says where it is, not a tenant."""


class PrometheusAway(Exception):  # noqa: N818 - a state of the server
    """There is no answer; `note` says why."""

    def __init__(self, note: Note) -> None:
        super().__init__(note.value)
        self.note = note


class Prometheus:
    """One Prometheus. Used on one loop."""

    def __init__(self, url: PrometheusUrl) -> None:
        self._url = url
        self._http = TenantHttp(_ANYWHERE)
        self._under_way: Counter[str] = Counter()
        """By tenant: questions that wait for an answer."""
        self._failing = False

    async def read(self, tenant: str, owner: str, kind: Kind, name: str, span: Span) -> Told:
        """A series of `owner`, an instance of `tenant`. Raises: PrometheusAway."""
        own, all_in_all = self._under_way[tenant], self._under_way.total()
        if own >= UNDER_WAY_MAX_PER_TENANT or all_in_all >= UNDER_WAY_MAX:
            raise PrometheusAway(Note.BUSY)
        self._under_way[tenant] += 1
        try:
            told = await self._told(tenant, form_of(owner, kind, name, span), kind, span)
        except (NoAnswer, TimeoutError, ValueError) as error:
            if not self._failing:
                why = str(error)[:500] or "it takes too long"
                _log.warning("Prometheus is of no use", url=str(self._url), why=why)
            self._failing = True
            raise PrometheusAway(Note.AWAY) from error
        finally:
            self._under_way[tenant] -= 1
            if not self._under_way[tenant]:
                del self._under_way[tenant]
        if self._failing:
            _log.info("Prometheus answers", url=str(self._url))
        self._failing = False
        return told

    async def _told(self, tenant: str, form: dict[str, str], kind: Kind, span: Span) -> Told:
        """Raises: NoAnswer, TimeoutError, ValueError."""
        headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")]
        if (authorization := self._url.authorization) is not None:
            headers.append(("Authorization", authorization))
        body = urlencode(form).encode()
        async with asyncio.timeout(ANSWER_MS_MAX / 1000):
            answered = await self._http.call(
                tenant, Sent("POST", self._url.range_url, headers, body, ANSWER_BYTES_MAX)
            )
        if answered.status != 200:
            raise NoAnswer(f"it answered {answered.status}: {answered.body[:200]!r}")
        return await asyncio.to_thread(told_by, answered.body, kind, span)
