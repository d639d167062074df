"""Apicurio Registry from Maven Central, in memory, open or behind basic authentication."""

import json
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import time
from typing import Any, Final
from urllib.parse import parse_qs

import httpx

from ctl.kafka.jars import fetched
from ctl.stack.layout import free_port
from tests.ecosystem.java_process import JavaProcess
from tests.unit.gateway.tokens import key_set, rsa, token

VERSION: Final = "2.6.13.Final"
"""The last that Java 17 runs."""
_NAME: Final = "apicurio-registry-app"
_POM: Final = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>portico</groupId><artifactId>apicurio</artifactId><version>1</version>
<dependencies><dependency><groupId>io.apicurio</groupId><artifactId>{_NAME}</artifactId>
<version>{VERSION}</version><type>tar.gz</type><classifier>all</classifier>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
</dependency></dependencies></project>
"""
_MAIN: Final = "io.quarkus.runner.GeneratedMain"
_START_S: Final = 120.0
_TOKEN_S: Final = 300
USER, PASSWORD = "shop", "the shop's own secret"


class Apicurio(JavaProcess):
    """A registry on loopback, with Confluent's API beside its own."""

    def __init__(self, directory: Path, *, provider: str | None = None) -> None:
        """`provider`: where who comes in by basic authentication is exchanged for a token; None: all may.
        Raises: CommandError without Java, Maven or the registry of packages.
        """
        archive = fetched(f"apicurio-{VERSION}", _POM) / f"{_NAME}-{VERSION}-all.tar.gz"
        home = directory / "apicurio"
        if not home.exists():
            with tarfile.open(archive) as files:
                files.extractall(home, filter="data")
        self._address = f"127.0.0.1:{free_port()}"
        host, port = self._address.split(":")
        flags = [f"-Dquarkus.http.host={host}", f"-Dquarkus.http.port={port}", *_login(provider)]
        jar = home / f"{_NAME}-{VERSION}-runner.jar"
        super().__init__(str(jar), (_MAIN,), directory / f"apicurio-{port}.log", flags=flags)

    @property
    def url(self) -> str:
        """Of Confluent's API."""
        return f"http://{self._address}/apis/ccompat/v7"

    def until_serving(self) -> None:
        """It answers, were it that one has to log in."""
        self.until("an answer", self._answers, _START_S)

    def _answers(self) -> bool:
        try:
            answer = httpx.get(f"{self.url}/subjects", timeout=30, trust_env=False)
        except httpx.TransportError:
            return False
        return answer.status_code in (200, 401)


def _login(provider: str | None) -> Sequence[str]:
    if provider is None:
        return ()
    settings = {
        "registry.auth.enabled": "true",
        "registry.auth.basic-auth-client-credentials.enabled": "true",
        "registry.auth.token.endpoint": f"{provider}/token",
        "quarkus.oidc.auth-server-url": provider,
        "quarkus.oidc.discovery-enabled": "false",
        "quarkus.oidc.jwks-path": f"{provider}/keys",
    }
    return [f"-D{name}={value}" for name, value in settings.items()]


class _Provider(BaseHTTPRequestHandler):
    """As much of OAuth as gives a client with the right secret a token, and tells the key of those."""

    def do_GET(self) -> None:
        self._answer(200, json.loads(key_set(rsa())))

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        if (form.get("client_id"), form.get("client_secret")) != ([USER], [PASSWORD]):
            return self._answer(401, {"error": "invalid_client"})
        now_s = int(time())
        made = token(rsa(), sub=USER, iat=now_s, exp=now_s + _TOKEN_S)
        return self._answer(200, {"access_token": made, "token_type": "Bearer", "expires_in": _TOKEN_S})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def token_provider() -> Iterator[str]:
    """The URL of one that serves meanwhile."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Provider) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
