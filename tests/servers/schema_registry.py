"""A schema registry with what consoles ask of Confluent's: schemas by id, and what they refer to."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

USER, PASSWORD = "portico", "s3cret-of-the-registry"


class SchemaRegistry(ThreadingHTTPServer):
    """Answers who logs in. `schemas`, `by_guid` and `subjects` are a test's to fill."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.schemas: dict[int, dict[str, Any]] = {}
        self.by_guid: dict[str, dict[str, Any]] = {}
        self.subjects: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: SchemaRegistry

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        said = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers["Authorization"] != f"Basic {said}":
            return self._answer(401, {"error_code": 401})
        parts = self.path.strip("/").split("/")
        match parts:
            case ["schemas", "ids", schema_id]:
                found = self.server.schemas.get(int(schema_id))
            case ["schemas", "guids", guid]:
                found = self.server.by_guid.get(guid)
            case _:
                found = self.server.subjects.get(self.path)
        return self._answer(404, {"error_code": 40403}) if found is None else self._answer(200, found)

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def schema_registry() -> Iterator[SchemaRegistry]:
    """One that serves meanwhile."""
    with SchemaRegistry() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
