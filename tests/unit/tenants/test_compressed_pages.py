"""The pages are sent as they were compressed at the build, to whoever takes that."""

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware

from tenants.api.pages import CompressedPages, encoding_of

TEXT = b"export const words = 'the same words again and again';\n" * 100


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_bytes(b"<p>short</p>")
    (tmp_path / "assets" / "a.js").write_bytes(TEXT)
    (tmp_path / "assets" / "a.js.br").write_bytes(b"as brotli")
    (tmp_path / "assets" / "a.js.gz").write_bytes(gzip.compress(TEXT))
    app = Starlette(middleware=[Middleware(GZipMiddleware, minimum_size=100)])
    app.mount("/", CompressedPages(directory=tmp_path, html=True))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://c") as made:
        yield made


async def raw(client: httpx.AsyncClient, path: str, **headers: str) -> tuple[httpx.Response, bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.stream("GET", path, headers=named) as answer:
        return answer, b"".join([chunk async for chunk in answer.aiter_raw()])


async def test_each_encoding_is_sent_as_it_lies_there(client: httpx.AsyncClient) -> None:
    tags = set()
    for accepted, encoding, content in (
        ("gzip, deflate, br", "br", b"as brotli"),
        ("gzip", "gzip", (gzip.compress(TEXT))),
        ("identity", None, TEXT),
    ):
        answer, sent = await raw(client, "/assets/a.js", accept_encoding=accepted)
        assert answer.headers.get("content-encoding") == encoding
        assert sent == content or gzip.decompress(sent) == TEXT
        assert answer.headers["content-type"].startswith("text/javascript")
        assert "accept-encoding" in answer.headers["vary"].lower()
        tags.add(answer.headers["etag"])
        again, nothing = await raw(
            client, "/assets/a.js", accept_encoding=accepted, if_none_match=answer.headers["etag"]
        )
        assert (again.status_code, nothing) == (304, b"")
    assert len(tags) == 3


async def test_what_was_not_compressed_is_sent_plain(client: httpx.AsyncClient) -> None:
    answer, sent = await raw(client, "/", accept_encoding="br")
    assert "content-encoding" not in answer.headers and sent == b"<p>short</p>"


async def test_forms_have_no_address_of_their_own(client: httpx.AsyncClient) -> None:
    assert (await client.get("/assets/a.js.br")).status_code == 404


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("", None),
        ("br;q=0, gzip;q=0.5", "gzip"),
        ("br; q=0.0", None),
        ("*", "br"),
        ("*;q=0", None),
        ("GZIP", "gzip"),
        ("gzip, *;q=0", "gzip"),
        (";;,,", None),
    ],
)
def test_what_is_accepted_is_understood(accepted: str, encoding: str | None) -> None:
    assert encoding_of(accepted) == encoding
