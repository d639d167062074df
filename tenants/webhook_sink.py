"""One attempt to hand a message to a sink."""

from collections.abc import Sequence
from typing import NamedTuple

from tenants.rules.webhooks import is_delivered
from tenants.tenant_http import NoAnswer, Sent, TenantHttp


class Outcome(NamedTuple):
    """How an attempt went."""

    status: int | None
    """None: there was no answer."""
    error: str
    """Empty: it was taken."""


class WebhookSink:
    """Sends to tenants' URLs."""

    def __init__(self, http: TenantHttp) -> None:
        self._http = http

    async def post(self, tenant: str, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> Outcome:
        """One attempt; never raises for what a sink does."""
        try:
            status = (await self._http.call(tenant, Sent("POST", url, headers, body))).status
        except NoAnswer as error:
            return Outcome(None, str(error))
        if is_delivered(status):
            return Outcome(status, "")
        is_redirect = 300 <= status < 400
        return Outcome(
            status, f"answered {status}{', and redirects are not followed' if is_redirect else ''}"
        )
