"""A schema registry that says what a test has."""

import json
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass
class Says:
    """An answer."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    pause_s: float = 0.0
    """Before each byte."""


def schema(text: object, kind: str = "AVRO", version: int = 1, **more: object) -> Says:
    """What a registry tells of a schema; an object is written as JSON."""
    told = text if isinstance(text, str) else json.dumps(text)
    return Says(
        json.dumps({"schema": told, "schemaType": kind, "version": version, "id": 1, **more}).encode()
    )


def framed(schema_id: int, data: bytes) -> bytes:
    """A value as serializers of registries write it."""
    return struct.pack(">bI", 0, schema_id) + data


class StandIn:
    """Its answers by path, which may be changed while it runs."""

    def __init__(self) -> None:
        self.says: dict[str, Says] = {}
        self.asked: list[tuple[str, str | None]] = []
        """Paths, and who asked."""
        self.url = ""

    def has(self, schema_id: int, told: Says, subject: str | None = None) -> None:
        """A schema; of a subject it is the newest."""
        self.says[f"/schemas/ids/{schema_id}"] = told
        if subject is not None:
            self.says[f"/subjects/{subject}/versions/latest"] = told


@contextmanager
def stand_in_registry() -> Iterator[StandIn]:
    """One on a free port."""
    registry = StandIn()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append((self.path, self.headers.get("Authorization")))
            told = registry.says.get(self.path, Says(b'{"error_code": 40403}', 404))
            self.send_response(told.status)
            for name, value in told.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(told.body)))
            self.end_headers()
            if not told.pause_s:
                self.wfile.write(told.body)
                return
            for each in told.body:
                time.sleep(told.pause_s)
                try:
                    self.wfile.write(bytes([each]))
                except OSError:
                    return

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
