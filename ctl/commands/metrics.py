"""`portico metrics`: where the processes of this stack are scraped, and what they tell."""

import concurrent.futures
import json
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from ctl.errors import CommandError, usage
from ctl.options import DEFAULT_DATA_DIR, DataDir
from ctl.output import Answer, in_table
from ctl.stack.layout import Layout
from ctl.stack.metrics_plan import PrometheusFiles
from ctl.stack.processes import CLUSTER_ID
from runtime.metrics import scrape_token
from runtime.trusted import verify_of

_TIMEOUT_S = 10.0


def metrics(
    process: Annotated[
        str | None, typer.Argument(metavar="[PROCESS]", help="Print its metrics: control, broker-1 ...")
    ] = None,
    grep: Annotated[str | None, typer.Option(metavar="TEXT", help="Lines with this text only.")] = None,
    token: Annotated[bool, typer.Option("--token", help="Print the token that scrapes need.")] = False,
    scrape_config: Annotated[
        bool, typer.Option("--scrape-config", help="Print what prometheus.yml needs.")
    ] = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> Answer | None:
    """List where the processes of the running stack are scraped, or print what one tells."""
    layout = Layout(data_dir)
    stack = _stack(layout)
    secret_token = scrape_token(layout.ensure_secret())
    if token:
        print(secret_token)
    elif scrape_config:
        directory = stack["settings"]["prometheus_dir"]["value"] or layout.prometheus_dir.resolve()
        print(PrometheusFiles(Path(directory), CLUSTER_ID, is_shared=False).scrape_config(), end="")
    elif process is not None:
        _print(process, stack["metrics"], secret_token, grep)
    elif grep is not None:
        raise usage("--grep needs a process: `portico metrics` lists them")
    else:
        return _all(stack["metrics"], secret_token)
    return None


def _stack(layout: Layout) -> dict[str, Any]:
    try:
        stack: dict[str, Any] = json.loads(layout.stack_file.read_text())
    except FileNotFoundError:
        raise CommandError(
            f"no stack in {layout.data_dir}: start one with `portico up`, or name its --data-dir"
        ) from None
    except (OSError, ValueError) as error:
        raise CommandError(f"{layout.stack_file} cannot be used ({error}): start the stack again") from error
    return stack


def _scrape(url: str, token: str) -> httpx.Response:
    """Raises: httpx.HTTPError."""
    headers = {"Authorization": f"Bearer {token}"}
    response = httpx.get(url, headers=headers, timeout=_TIMEOUT_S, trust_env=False, verify=verify_of(url))
    return response.raise_for_status()


def _print(process: str, endpoints: dict[str, str], token: str, grep: str | None) -> None:
    if process not in endpoints:
        raise usage(f"there is no process '{process}', but {', '.join(endpoints)}")
    try:
        text = _scrape(endpoints[process], token).text
    except httpx.HTTPError as error:
        raise CommandError(f"{process} does not answer at {endpoints[process]}: {error}") from error
    lines = text.splitlines()
    print("\n".join(line for line in lines if grep is None or grep in line))


def _all(endpoints: dict[str, str], token: str) -> Answer:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        states = list(pool.map(lambda url: _state(url, token), endpoints.values()))
    found = [
        {"process": name, "url": url, "state": state}
        for (name, url), state in zip(endpoints.items(), states, strict=True)
    ]
    rows = ([each["process"], each["url"], each["state"]] for each in found)
    return in_table(found, ["PROCESS", "ADDRESS", "STATE"], rows, empty="No process is scraped.")


def _state(url: str, token: str) -> str:
    try:
        _scrape(url, token)
    except httpx.HTTPStatusError as error:
        return f"answers {error.response.status_code}"
    except httpx.HTTPError:
        return "does not answer"
    return "up"
