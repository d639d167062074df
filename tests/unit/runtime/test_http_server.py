"""The bounds of an HTTP port, on real sockets: what is sent, what is answered, what is closed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import prometheus_client
import pytest

from runtime.http_limits import HttpLimits
from runtime.http_server import http_server, stop_serving, until_serving

SHORT: dict[str, Any] = {
    "head_timeout_s": 0.3,
    "body_timeout_s": 0.3,
    "write_timeout_s": 0.5,
    "keep_alive_s": 1,
    "body_bytes_max": 100_000,
}


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with how many bytes came; `/early` without reading them, `/large` with 8 MB, `/slow` later."""
    size = 0
    if scope["path"] == "/slow":
        await asyncio.sleep(0.5)
    more = scope["path"] != "/early"
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        more = message["more_body"]
    client = "/".join([scope["scheme"], scope["client"][0]]).encode()
    body = b"x" * 8_000_000 if scope["path"] == "/large" else b"%d bytes from %s" % (size, client)
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def serving(**limits: Any) -> AsyncIterator[int]:
    server = http_server(echo, ("127.0.0.1", 0), HttpLimits(port="test", **{**SHORT, **limits}))
    task = asyncio.create_task(server.serve())
    await until_serving([server], [task])
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        await stop_serving([server], [task])


def cut(cause: str) -> float:
    value = prometheus_client.REGISTRY.get_sample_value(
        "portico_http_connections_cut_total", {"port": "test", "cause": cause}
    )
    return value or 0.0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def said(port: int, *pieces: bytes, pause_s: float = 0.0) -> bytes:
    """What the server says to some bytes until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)
    answer = b""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(20):
            answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("head", "cause"),
    [
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 33_000, "line_bytes"),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 200, "header_lines"),
        (b"GET / HTTP/1.1\r\n" + (b"x: " + b"a" * 9_000 + b"\r\n") * 5 + b"\r\n", "head_bytes"),
    ],
)
async def test_a_large_head_gets_431(head: bytes, cause: str) -> None:
    before = cut(cause)
    async with serving() as port:
        assert (await said(port, head)).startswith(b"HTTP/1.1 431 ")
    assert cut(cause) == before + 1


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\ntransfer-encoding:chunked\r\nCONTENT-LENGTH:3\r\n\r\n",
        b"POST / HTTP/1.1\nHost: x\nTRANSFER-ENCODING: chunked\nA: b\nContent-Length: 3\n\n",
        b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
async def test_what_says_in_two_ways_where_it_ends_gets_400_and_nothing_behind_it_is_read(
    head: bytes,
) -> None:
    before = cut("framing")
    async with serving() as port:
        heard = await said(port, head + b"0\r\n\r\nGET /behind HTTP/1.1\r\nHost: x\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in heard
    assert heard.count(b"content-length:") == 1
    assert cut("framing") == before + 1


async def test_a_head_that_does_not_end_gets_408_also_when_it_drips() -> None:
    before = cut("head_timeout")
    async with serving() as port:
        answers = await asyncio.gather(
            said(port, b"GET / HTTP/1.1\r\n"),
            said(port),
            said(port, *[b"a"] * 20, pause_s=0.05),
        )
    assert [answer[:13] for answer in answers[:2]] == [b"HTTP/1.1 408 "] * 2
    assert answers[2][:13] in (b"HTTP/1.1 408 ", b"")  # who goes on sending may miss the answer
    assert cut("head_timeout") == before + 3


async def test_a_later_request_has_no_more_time_than_the_first() -> None:
    async with serving() as port:
        answer = await said(port, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", b"GET / HT", pause_s=0.1)
    assert answer.count(b"HTTP/1.1 200 ") == 1
    assert answer.count(b"HTTP/1.1 408 ") == 1


async def test_an_idle_connection_is_closed() -> None:
    async with serving() as port:
        answer = await said(port, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_a_slow_body_gets_408() -> None:
    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n"
    before = cut("body_timeout")
    async with serving() as port:
        answer = await said(port, head, *[b"b"] * 20, pause_s=0.05)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 408 ")
    assert cut("body_timeout") == before + 1


@pytest.mark.parametrize("path", [b"/", b"/early"])
async def test_a_body_without_end_is_cut(path: bytes) -> None:
    head = b"POST " + path + b" HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"2710\r\n" + b"c" * 10_000 + b"\r\n"
    before = cut("body_bytes")
    async with serving() as port:
        await said(port, head, *[chunk] * 40)
    assert cut("body_bytes") == before + 1


async def test_trailers_without_end_are_refused() -> None:
    head = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n"
    async with serving() as port:
        answer = await said(port, head, b"t: " + b"a" * 50_000)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")


async def test_bodies_arrive_whole_in_any_pieces() -> None:
    async with serving() as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        for size in (0, 1, 16_384, 16_385, 99_000):
            answer = await client.post("/", content=b"b" * size)
            assert answer.text.startswith(f"{size} bytes")

            async def chunks(left: int = size) -> AsyncIterator[bytes]:
                while left:
                    piece = min(left, 777)
                    left -= piece
                    yield b"b" * piece

            answer = await client.post("/", content=chunks())
            assert answer.text.startswith(f"{size} bytes")
        early = await client.post("/early", content=b"b" * 50_000)
        assert early.status_code == 200
        assert (await client.get("/")).status_code == 200


async def test_a_request_behind_one_that_is_not_answered_is_not_kept() -> None:
    request = b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n"
    async with serving() as port:
        answer = await said(port, request, request * 1_000, pause_s=0.1)
    assert answer.count(b"HTTP/1.1 200 ") == 1


async def test_a_peer_that_does_not_read_is_cut() -> None:
    before = cut("write_timeout")
    async with serving() as port:
        _reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
        await until(lambda: cut("write_timeout") == before + 1)
        writer.close()


async def test_connections_that_wait_keep_nobody_out() -> None:
    before = cut("crowded_out")
    async with serving(connections_max=20, connections_per_address_max=10, head_timeout_s=60.0) as port:
        waiting = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            for _ in range(5):
                assert (await client.get("/", headers={"connection": "close"})).status_code == 200
        assert cut("crowded_out") >= before + 41  # 40 of them, and one for the first request
        for _reader, writer in waiting:
            writer.close()


async def test_requests_under_way_are_bounded() -> None:
    async with (
        serving(requests_max=3) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        answers = await asyncio.gather(*(client.get("/slow") for _ in range(8)))
        assert sorted(answer.status_code for answer in answers) == [200] * 3 + [503] * 5
        assert (await client.get("/")).status_code == 200


async def test_only_a_trusted_proxy_says_for_whom_it_speaks() -> None:
    told = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}
    for proxies, expected in (((), "http/127.0.0.1"), (("127.0.0.0/8",), "https/203.0.113.7")):
        async with serving(proxies=proxies) as port, httpx.AsyncClient() as client:
            answer = await client.get(f"http://127.0.0.1:{port}/", headers=told)
            assert answer.text.endswith(expected)
