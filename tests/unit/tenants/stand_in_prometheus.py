"""Stands in for a Prometheus: a real port, and whatever a test wants it to answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qs

from tenants.rules.prometheus_url import PrometheusUrl

Answer = Callable[[dict[str, str]], bytes]
"""The whole answer, head and body, to the form that was posted."""


def ok(body: bytes) -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )


def points(
    form: dict[str, str], values: dict[str, int], since_s: float = 0, warnings: tuple[str, ...] = ()
) -> bytes:
    """A matrix with a constant for each measure, at each step from a time on."""
    start, end, step = (float(form[name]) for name in ("start", "end", "step"))
    count = round((end - start) / step) + 1
    times = [at_s for place in range(count) if (at_s := round(start + place * step, 3)) >= since_s]
    lines = [
        {"metric": {"portico_measure": measure}, "values": [[at_s, str(value)] for at_s in times]}
        for measure, value in values.items()
    ]
    said = {
        "status": "success",
        "data": {"resultType": "matrix", "result": lines},
        "warnings": list(warnings),
    }
    return ok(json.dumps(said).encode())


class StandIn:
    """What it was asked, and what it answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        """Heads and forms."""
        self.answer: Answer = lambda form: points(form, {})
        self.waits = asyncio.Event()
        """Until it is set nothing is answered."""
        self.waits.set()
        self.url = PrometheusUrl("")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.partition(":")[2])
            for line in head.split("\r\n")
            if line.lower().startswith("content-length")
        )
        body = (await reader.readexactly(length)).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self.asked.append((head, form))
        await self.waits.wait()
        writer.write(self.answer(form))
        writer.close()


@asynccontextmanager
async def stand_in() -> AsyncIterator[StandIn]:
    one = StandIn()
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    one.url = PrometheusUrl(f"http://ops:hunter2@127.0.0.1:{port}/prefix")
    try:
        yield one
    finally:
        one.waits.set()
        server.close()
