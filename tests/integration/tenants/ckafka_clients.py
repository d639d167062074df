"""Tencent's SDK and tccli, unchanged, at the CKafka-compatible endpoint of a stack."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tencentcloud.ckafka.v20190819 import ckafka_client, models
from tencentcloud.common.credential import Credential
from tencentcloud.common.profile.client_profile import ClientProfile
from tencentcloud.common.profile.http_profile import HttpProfile

from tests.integration.stack import Stack

TCCLI = Path(sys.prefix) / "tccli"
_TYPES = {"str": str, "int": int, "bool": bool, "float": (int, float)}


class _Recording(ckafka_client.CkafkaClient):
    """The SDK's client, which keeps what it was answered."""

    answer: Any = None

    def call(self, *arguments: Any, **more: Any) -> Any:
        """One request, as it is sent anyway."""
        body = super().call(*arguments, **more)
        self.answer = json.loads(body)["Response"]
        return body


class Sdk:
    """The SDK with one access key. What it is answered is checked against its own models."""

    def __init__(self, stack: Stack, key: dict[str, Any], **profile: Any) -> None:
        address = stack.console_url.removeprefix("http://")
        http = HttpProfile(endpoint=address, protocol="http", **profile)
        credential = Credential(key["secret_id"], key["secret_key"])
        self._client = _Recording(credential, "local", ClientProfile(httpProfile=http))
        self.called: set[str] = set()

    def __call__(self, action: str, **params: Any) -> Any:
        """`Result` as it came, after the model has taken it. Raises: TencentCloudSDKException."""
        request = getattr(models, f"{action}Request")()
        request.from_json_string(json.dumps(params))
        response = getattr(self._client, action)(request)
        assert response.RequestId == self._client.answer["RequestId"]
        check(getattr(models, f"{action}Response"), self._client.answer, action)
        self.called.add(action)
        return self._client.answer["Result"]


def check(model: type[Any], answer: dict[str, Any], path: str) -> None:
    """Every field of the model is there and nothing else, of the type that the SDK documents, or null."""
    types = dict(re.findall(r":type (\w+): (.+)", model.__init__.__doc__ or ""))
    assert answer.keys() == types.keys(), (path, answer.keys() ^ types.keys())
    for name, kind in types.items():
        for value in _values(answer[name], kind, f"{path}.{name}"):
            _check_value(value, kind.removeprefix("list of "), f"{path}.{name}")


def _values(value: Any, kind: str, path: str) -> list[Any]:
    if value is None:
        return []
    if not kind.startswith("list of "):
        return [value]
    assert isinstance(value, list), (path, value)
    return value


def _check_value(value: Any, kind: str, path: str) -> None:
    name = kind.strip().removeprefix(":class:").strip("`").rpartition(".")[2]
    if name not in _TYPES:
        check(getattr(models, name), value, path)
    else:
        wanted = _TYPES[name]
        is_right = isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))
        assert is_right, (path, kind, value)


class Tccli:
    """tccli with one access key."""

    def __init__(self, process: "subprocess.Popen[str]", stack: Stack, key: dict[str, Any]) -> None:
        self._process = process
        self.called: set[str] = set()
        self._fixed = [
            *("--region", "local", "--endpoint", stack.console_url),
            *("--secretId", key["secret_id"], "--secretKey", key["secret_key"]),
        ]

    def run(self, action: str, **params: Any) -> dict[str, Any]:
        """Exit code and output of one command."""
        given = [text for name, value in params.items() for text in (f"--{name}", _argument(value))]
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(["ckafka", action, *self._fixed, *given]) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def __call__(self, action: str, **params: Any) -> Any:
        """`Result` of a command that succeeds."""
        answer = self.run(action, **params)
        assert answer["code"] == 0, answer
        self.called.add(action)
        return json.loads(answer["output"])["Result"]


def _argument(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@contextmanager
def running_tccli(home: Path, stack: Stack, key: dict[str, Any]) -> Iterator[Tccli]:
    """tccli with a home directory of its own."""
    if not TCCLI.exists():
        assert "CI" not in os.environ, f"tccli is not in {TCCLI}"
        pytest.skip(f"tccli is not in {TCCLI}: `./portico test` installs it")
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("tccli_calls.py"))],
        env=os.environ | {"PYTHONPATH": str(TCCLI), "HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Tccli(process, stack, key)
    finally:
        process.terminate()
        process.wait(20)
