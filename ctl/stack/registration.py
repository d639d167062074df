"""Brokers that serve are of use once the control plane knows them."""

import asyncio
from typing import Any, Final

import httpx

from ctl.errors import CommandError
from runtime.clock import monotonic_ms

_TIMEOUT_MS: Final = 30_000
_ASK_EVERY_S: Final = 0.05


async def until_registered(console: str, api_key: str, brokers: int) -> None:
    """Wait until so many brokers follow the control plane. Raises: CommandError."""
    headers = {"Authorization": f"Bearer {api_key}"}
    deadline_ms = monotonic_ms() + _TIMEOUT_MS
    async with httpx.AsyncClient(base_url=console, headers=headers, timeout=10.0, trust_env=False) as client:
        while await _following(client) < brokers:
            if monotonic_ms() > deadline_ms:
                raise CommandError("not all brokers reached the control plane; their logs say why")
            await asyncio.sleep(_ASK_EVERY_S)


async def _following(client: httpx.AsyncClient) -> int:
    try:
        answer = await client.get("/v1/brokers")
    except httpx.TransportError:
        return 0
    rows: list[dict[str, Any]] = answer.json()["items"] if answer.is_success else []
    return sum(bool(row["live"]) for row in rows)
