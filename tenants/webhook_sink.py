"""One attempt to hand a message to a sink."""

from collections.abc import Sequence

from runtime.clock import epoch_ms
from tenants.rules.webhooks import is_delivered, signature
from tenants.tenant_http import NoAnswer, Sent, TenantHttp
from tenants.usecases.webhooks import Due, Outcome


class WebhookSink:
    """Sends to tenants' URLs."""

    def __init__(self, http: TenantHttp) -> None:
        self._http = http

    async def send(self, due: Due) -> Outcome:
        """A message that is due, signed."""
        assert due.key is not None, "the runner sends nothing without it"
        body, timestamp_s = due.delivery.body.encode(), epoch_ms() // 1000
        headers = [
            ("User-Agent", "portico"),
            ("Content-Type", "application/json"),
            ("webhook-id", due.delivery.id),
            ("webhook-timestamp", str(timestamp_s)),
            ("webhook-signature", signature(due.key, due.delivery.id, timestamp_s, body)),
        ]
        return await self.post(due.webhook.tenant, due.webhook.url, headers, body)

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
