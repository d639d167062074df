"""An S3 server of a process of its own: moto's, which keeps objects in memory and forgets them at its end."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import httpx

from ctl.stack.layout import free_port
from tests.integration.stack import ROOT

_START_TIMEOUT_S: Final = 60.0
_SERVER: Final = (
    "import logging, sys; from moto.server import main; "
    "logging.getLogger('werkzeug').setLevel(logging.ERROR); main(sys.argv[1:])"
)


class S3Server(NamedTuple):
    """Where it answers, and the bucket that it has."""

    url: str
    bucket: str

    @property
    def root(self) -> str:
        """The bucket's URL."""
        return f"s3a://{self.bucket}"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to use it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "a secret",
            "AWS_REGION": "us-east-1",
        }


@contextmanager
def troubled_s3(server: S3Server) -> Iterator[S3Server]:
    """The same server behind one that has troubles (`troubled_s3.py`). A process of its own: libraries hold
    this one's interpreter while they wait for an answer.
    """
    port = free_port()
    command = [sys.executable, "-m", "tests.pipeline.troubled_s3", str(port), server.url]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        wait_for(f"http://127.0.0.1:{port}", process)
        yield server._replace(url=f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """On a free port, with one bucket."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER, "-H", "127.0.0.1", "-p", str(port)],
        env=os.environ | {"MOTO_S3_DEFAULT_KEY_BUFFER_SIZE": str(64 * 1024 * 1024)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        server = S3Server(f"http://127.0.0.1:{port}", f"lakes-{uuid.uuid4().hex}")
        wait_for(server.url, process)
        httpx.put(f"{server.url}/{server.bucket}").raise_for_status()
        yield server
    finally:
        process.terminate()
        process.wait(30)


def wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    """Until a server that was just started answers. Raises: AssertionError where it ends, or takes long."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            httpx.get(url)
            return
        except httpx.TransportError:
            assert process.poll() is None and time.monotonic() < deadline, "the server does not start"
            time.sleep(0.1)
