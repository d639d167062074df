"""The console API as the command line uses it: the same REST that everyone has."""

import json
import time
import uuid
from collections.abc import Callable
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from ctl.errors import EXIT_USAGE, CommandError
from ctl.stack.layout import CONSOLE_VARIABLES, Layout
from runtime.config import environment
from runtime.trusted import verify_of

_SERVE_TIMEOUT_S: Final = 30.0
_TRIES: Final = 3
_ANSWER_TIMEOUT_S: Final = 30.0
_RETRY_S: Final = 1.0


def locate(data_dir: Path) -> tuple[str, str]:
    """(URL, API key): from the environment, else from the stack of `data_dir`. Raises: CommandError."""
    variables = environment()
    url, key = (variables.get(name) for name in CONSOLE_VARIABLES)
    if url:
        if not key:
            raise CommandError("PORTICO_URL is set but PORTICO_API_KEY is not: set both", EXIT_USAGE)
        return url, key
    path = Layout(data_dir).stack_file
    try:
        stack = json.loads(path.read_text())
        return str(stack["console"]), key or str(stack["api_key"])
    except FileNotFoundError:
        raise CommandError(
            f"no stack in {data_dir}: start one with `portico up`, name its --data-dir, or set PORTICO_URL"
        ) from None
    except (OSError, ValueError, KeyError) as error:
        raise CommandError(f"{path} cannot be used ({error}): start the stack again") from error


class Console:
    """A client of one console, used as a context manager."""

    def __init__(
        self,
        place: Callable[[], tuple[str, str]],
        tenant: str | None = None,
        *,
        timeout_s: float = _ANSWER_TIMEOUT_S,
    ) -> None:
        """`place` says URL and API key, and is asked when they are needed: wrong usage is found before."""
        self._place = place
        self._tenant = tenant
        self._timeout_s = timeout_s

    @classmethod
    def at(cls, url: str, key: str, tenant: str | None = None) -> Self:
        """The console at a URL, with a key."""
        return cls(lambda: (url, key), tenant)

    @classmethod
    def of(cls, data_dir: Path, tenant: str | None = None, *, timeout_s: float = _ANSWER_TIMEOUT_S) -> Self:
        """The console that a command should talk to."""
        return cls(lambda: locate(data_dir), tenant, timeout_s=timeout_s)

    @cached_property
    def url(self) -> str:
        """Where the console is, without a slash at the end. Raises: CommandError."""
        return str(self._http.base_url).rstrip("/")

    @cached_property
    def _http(self) -> httpx.Client:
        url, key = self._place()
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(
            base_url=url,
            headers=headers,
            timeout=self._timeout_s,
            trust_env=False,
            verify=verify_of(url),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if "_http" in vars(self):
            self._http.close()

    def get(self, path: str, **params: Any) -> Any:
        """GET /v1/PATH."""
        return self.call("GET", path, params=params)

    def all_items(self, path: str) -> list[Any]:
        """GET every page of a listing."""
        items: list[Any] = []
        cursor: dict[str, Any] = {}
        while True:
            page = self.get(path, **cursor)
            items += page["items"]
            if not page.get("next_cursor"):
                return items
            cursor = {"cursor": page["next_cursor"]}

    def begin(self, path: str, body: Any) -> Any:
        """POST what takes its time; the operation. Raises: CommandError."""
        return self.call("POST", path, body, headers={"Prefer": "respond-async"})

    def follow(self, operation: Any) -> Any:
        """The instance of an operation, once that has succeeded. Raises: CommandError with the reason."""
        deadline = time.monotonic() + _SERVE_TIMEOUT_S
        while operation["state"] == "running":
            if time.monotonic() > deadline:
                reached = operation["progress"] or {"done": 0, "total": 0}
                raise CommandError(
                    f"{operation['kind']} still runs after {_SERVE_TIMEOUT_S:.0f} s, {reached['done']} of "
                    f"{reached['total']} gateways and brokers follow: do they run? (`portico doctor`)"
                )
            time.sleep(0.05)
            operation = self.get(f"operations/{operation['id']}")
        if operation["state"] == "failed":
            raise CommandError(f"instance {operation['instance_id']} failed: {operation['error']}")
        return self.get(f"instances/{operation['instance_id']}")

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Call the API; an answer without content is None. Raises: CommandError."""
        response = self._answered(method, path, body, dict(params or {}), headers or {})
        return response.json() if response.content else None

    def text(self, path: str, **params: object) -> str:
        """GET /v1/PATH of what is no JSON, such as CSV. Raises: CommandError."""
        return self._answered("GET", path, None, params, {}).text

    def _answered(
        self, method: str, path: str, body: object, query: dict[str, object], headers: dict[str, str]
    ) -> httpx.Response:
        if self._tenant is not None:
            query = {**query, "tenant": self._tenant}
        response = self._send(method, f"/v1/{path}", body, query, headers)
        if response.status_code >= 400:
            raise _failure(response)
        return response

    def _send(
        self, method: str, path: str, body: Any, query: dict[str, Any], headers: dict[str, str]
    ) -> httpx.Response:
        """Send it, and once more where the connection broke: reads, and POSTs, which have a key and so are
        carried out once. A POST that is still carried out is waited for. Raises: CommandError."""
        if method == "POST":
            headers = {**headers, "Idempotency-Key": str(uuid.uuid4())}
        tries = _TRIES if method in ("GET", "POST") else 1
        while True:
            tries -= 1
            try:
                response = self._http.request(method, path, json=body, params=query, headers=headers)
            except (httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError) as error:
                if not tries:
                    raise self._silent(error) from error
            except httpx.HTTPError as error:
                raise self._silent(error) from error
            else:
                is_under_way = (
                    response.status_code == HTTPStatus.CONFLICT and "retry-after" in response.headers
                )
                if not (is_under_way and tries):
                    return response
            time.sleep(_RETRY_S)

    def _silent(self, error: Exception) -> CommandError:
        return CommandError(f"the console at {self.url} does not answer: {error}")

    def wait_until_serving(self, instance_id: str, within_s: float = _SERVE_TIMEOUT_S) -> Any:
        """Poll an instance until it runs. Raises: CommandError with the reason when it does not."""
        deadline = time.monotonic() + within_s
        while True:
            instance = self.get(f"instances/{instance_id}")
            if instance["state"] == "running":
                return instance
            if instance["state"] == "failed":
                raise CommandError(f"instance {instance_id} failed: {instance['state_reason']}")
            if time.monotonic() > deadline:
                raise CommandError(
                    f"instance {instance_id} is still {instance['state']} after {within_s:.0f} s: "
                    "do the gateways run? (`portico doctor`)"
                )
            time.sleep(0.05)


def instance_path(instance: str, *parts: str) -> str:
    """`instances/ID/...` with every part quoted."""
    return "/".join(["instances", quote(instance, safe=""), *(quote(part, safe="") for part in parts)])


def remove_instance(console: Console, instance_id: str) -> None:
    """Delete an instance and purge it at once: its capacity counts until its data is gone. Without a grace
    the purge happens by itself. Raises: CommandError."""
    console.call("DELETE", instance_path(instance_id))
    try:
        console.call("POST", f"deleted-instances/{instance_id}/purge")
    except CommandError:
        left = {one["id"] for one in console.get("deleted-instances", tenant="*", limit=1000)["items"]}
        if instance_id in left:
            raise


_OPTIONS: Final = {
    "produce_rate_bytes_per_s": "--produce-rate",
    "consume_rate_bytes_per_s": "--consume-rate",
    "capacity_bytes": "--capacity",
    "limits.partitions_max": "--partitions-max",
    "limits.partitions_default": "--partitions-default",
    "limits.connections_max": "--connections-max",
    "limits.controller_mutation_rate_max": "--controller-mutation-rate-max",
    "limits.message_bytes_max": "--message-bytes-max",
    "full_behaviour": "--full-behaviour",
    "request_percent": "--request-percent",
    "auto_create_topics": "--auto-create-topics",
    "legacy_clients": "--legacy-clients",
    "client_metrics": "--client-metrics",
    "allow_all": "--allow-all",
    "partitions": "--partitions",
    "connections": "--connections",
    "instances": "--instances",
    "configs": "--config",
    "whitelist": "--whitelist",
}
"""Fields of the API by the options that people give them with."""


def _option(field: str) -> str:
    """`capacity_bytes` as `--capacity`, `configs.retention.ms` as `--config retention.ms`; what has no option
    as it is."""
    if field in _OPTIONS:
        return _OPTIONS[field]
    first, _, rest = field.partition(".")
    if first not in _OPTIONS:
        return field
    return _OPTIONS[first] if rest.isdecimal() else f"{_OPTIONS[first]} {rest}"


def _failure(response: httpx.Response) -> CommandError:
    try:
        problem = response.json()
        sentence = str(problem.get("detail") or problem.get("title") or response.reason_phrase)
        told = problem.get("errors") or []
        faults = [
            f"{_option(fault['field'])}: {fault['message']}"
            for fault in told
            if fault["message"] not in sentence
        ]
        for fault in told:
            sentence = sentence.replace(f"{fault['field']}: ", f"{_option(fault['field'])}: ", 1)
        is_unfit = problem.get("type") == "urn:portico:problem:does-not-fit"
    except (ValueError, AttributeError, KeyError):
        sentence, faults = f"the console answered {response.status_code} {response.reason_phrase}", []
        is_unfit = False
    if faults:
        sentence = f"{sentence.rstrip('.')} ({'; '.join(faults)})"
    is_usage = is_unfit or response.status_code in (400, 415, 422)
    return CommandError(sentence, EXIT_USAGE if is_usage else 1)
