"""Azure's storage, as the environment tells obstore and deltalake of it, in the words of Arrow and of Hadoop.

`AZURE_STORAGE_ACCOUNT_KEY` is the account's key; with `AZURE_STORAGE_USE_EMULATOR` an emulator stands for the
account, at `AZURITE_BLOB_STORAGE_URL`.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

SCHEMES: Final = ("abfss", "abfs")
KEY: Final = "AZURE_STORAGE_ACCOUNT_KEY"
_EMULATOR: Final = "http://127.0.0.1:10000"


def for_arrow(host: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Arguments of Arrow's file system of the account at `ACCOUNT.dfs.core.windows.net`."""
    found = {"account_name": host.partition(".")[0]}
    if key := environment.get(KEY):
        found["account_key"] = key
    if (url := _emulator(environment)) is not None:
        at = urlsplit(url)
        for of in ("blob", "dfs"):
            found |= {f"{of}_storage_authority": at.netloc, f"{of}_storage_scheme": at.scheme}
    return found


def for_hadoop(host: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Settings of Hadoop's. One of them is a secret: for no command line."""
    found = {}
    if key := environment.get(KEY):
        for name in (host, host.replace(".dfs.", ".blob.")):
            found[f"fs.azure.account.key.{name}"] = key
    if (url := _emulator(environment)) is not None:
        found |= {
            "fs.azure.abfs.endpoint": urlsplit(url).netloc,
            "fs.azure.account.hns.enabled": "false",
            "fs.azure.always.use.https": "false",
            "fs.azure.fns.account.service.type": "BLOB",
            "fs.azure.ingress.service.type": "BLOB",
            "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
            "fs.azure.ssl.channel.mode": "Default_JSSE",
        }
    return found


def _emulator(environment: Mapping[str, str]) -> str | None:
    if environment.get("AZURE_STORAGE_USE_EMULATOR", "").lower() != "true":
        return None
    return environment.get("AZURITE_BLOB_STORAGE_URL", _EMULATOR)
