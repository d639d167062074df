"""Azurite, the emulator of Azure's storage, as a process of its own that forgets all at its end."""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from pyarrow.fs import AzureFileSystem

from ctl.stack.layout import free_port
from pipeline.azure import for_arrow
from tests.pipeline.s3_server import wait_for

_HOST: Final = "devstoreaccount1.dfs.core.windows.net"
_KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Every emulator's."""


class AzureServer(NamedTuple):
    """Where it answers, and the container that it has."""

    url: str
    container: str

    @property
    def root(self) -> str:
        """The container's URL."""
        return f"abfs://{self.container}@{_HOST}"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to use it."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": _HOST.partition(".")[0],
            "AZURE_STORAGE_ACCOUNT_KEY": _KEY,
            "AZURE_STORAGE_ALLOW_HTTP": "true",
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": self.url,
        }


@contextmanager
def azure_server(folder: Path) -> Iterator[AzureServer]:
    """On a free port, installed below `folder`."""
    shutil.copytree(Path(__file__).parent / "azurite", folder)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, check=True)
    port = free_port()
    process = subprocess.Popen(
        [
            *(str(folder / "node_modules" / ".bin" / "azurite-blob"), "--silent", "--inMemoryPersistence"),
            *("--blobPort", str(port), "--skipApiVersionCheck", "--disableTelemetry"),
        ],
        cwd=folder,
        env=os.environ | {"NODE_OPTIONS": "--max-old-space-size=512"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        server = AzureServer(f"http://127.0.0.1:{port}", f"lakes-{uuid.uuid4().hex}")
        wait_for(server.url, process)
        AzureFileSystem(**for_arrow(_HOST, server.environment)).create_dir(server.container)
        yield server
    finally:
        process.terminate()
        process.wait(30)
