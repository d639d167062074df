"""What the documents show is run, fence by fence, as it stands there.

Every `sh` and `shell` fence of every page runs, but for the lines that `docs_commands.ELSEWHERE` names with
reasons; of the first pages, the API's and the clients' the `python` fences too. Names that stand for others
(an address, `ID`, `DATA`) are replaced. A page begins with no instances, so no page lives on what another has
made.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.e2e.docs_commands import (
    ELSEWHERE,
    PAGES,
    elsewhere,
    fences,
    lines_of,
    make_desk,
    run,
    run_here,
)
from tests.integration.alarming import full_instance
from tests.integration.stack import ROOT, Stack, running_stack
from tests.servers.smtp_server import SmtpServer, smtp_server_in_thread

_ADDRESS: Final = "127.0.0.1:20000"
_CONSOLE: Final = "http://127.0.0.1:8080"
_UNIT: Final = "| sudo tee /etc/systemd/system/portico.service"
Replacements = list[tuple[str, Iterable[str]]]
"""What stands on a page, a regular expression, and what it is here each time."""


_MAIL: Final = dict[str, SmtpServer]()
"""Where a stack's mails go, by its console."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Their own: an operator's first day sets what the cluster may sell."""
    allowed = ("--webhook-allow", "127.0.0.0/8", "--smtp-sender", "portico@example.com")
    with smtp_server_in_thread() as mail:
        options = (*allowed, "--smtp-url", f"smtp://127.0.0.1:{mail.port}")
        with running_stack(tmp_path_factory.mktemp("docs") / "data", *options) as stack:
            _MAIL[stack.console_url] = mail
            yield stack


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a `portico` that talks to the stack."""
    return make_desk(tmp_path_factory.mktemp("desk"))


@pytest.fixture
def cleared(stack: Stack) -> Stack:
    """As a page finds it: nothing is there, and there is room."""
    for instance in stack.api("GET", "instances", tenant="*")["items"]:
        if instance["tenant"] != "system":
            stack.api("DELETE", f"instances/{instance['id']}")
    for path in ("tenants/default", "clusters/builtin-1"):
        stack.api("PATCH", f"{path}/ceilings", {"capacity_bytes": 10**15, "produce_rate_bytes_per_s": 10**15})
    return stack


def _address(stack: Stack) -> str | None:
    """Of the instance that the page has made: it is the only one."""
    items = stack.api("GET", "instances", tenant="*")["items"]
    return next((each["bootstrap_servers"] for each in items if each["tenant"] != "system"), None)


def _shop(stack: Stack) -> Replacements:
    """Programs of clients find what a tenant's first day has made."""
    shop = stack.create_instance("shop")
    stack.api("POST", f"instances/{shop['id']}/topics", {"name": "orders", "partitions": 3})
    return []


class _Hook(BaseHTTPRequestHandler):
    """Takes whatever it is told."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def _alarms(stack: Stack) -> Replacements:
    """A shop that is full, which is an alarm; a webhook that answers, and an address whose reader agreed."""
    full_instance(stack, "shop")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hook)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    hook = stack.api("POST", "webhooks", {"name": "made", "url": url})
    email = stack.api("POST", "emails", {"address": "made@example.com"})
    mail, deadline = _MAIL[stack.console_url], monotonic() + 60
    while not mail.came and monotonic() < deadline:
        sleep(0.1)
    stack.api("POST", "email-links", {"secret": mail.secret("confirm")})
    return [
        (r"\bw0a1b2c3d4e5f\b", repeat(hook["id"])),
        (r"\be0a1b2c3d4e5f\b", repeat(email["id"])),
        (r"https://example\.com/hook", repeat(url)),
        (r"\$PORTICO_URL\b", repeat(stack.console_url)),
        (r"\$PORTICO_API_KEY\b", repeat(stack.api_key)),
        (r"curl -X PUT", repeat("curl -sf -X PUT")),
    ]


def _api(stack: Stack) -> Replacements:
    """Where the console is, a key, and an order."""
    rates = '"produce_rate_bytes_per_s": 1000000, "consume_rate_bytes_per_s": 1000000'
    order = f'{{"name": "asked", "capacity_bytes": 1000000000, "allow_all": true, {rates}}}'
    return [
        (r'os\.environ\["CONSOLE"\]', repeat(repr(stack.console_url))),
        (r'os\.environ\["KEY"\]', repeat(repr(stack.api_key))),
        (r"\$CONSOLE\b", repeat(stack.console_url)),
        (r"\$KEY\b", repeat(stack.api_key)),
        (r"\$\(uuidgen\)", repeat("0b9f1c7e-1f5c-4c1d-9d1c-3c2b6a2f7a10")),
        (r"curl -si", repeat("curl -sif")),
        (r"@order\.json", repeat(f"'{order}'")),
    ]


def _backups(stack: Stack) -> Replacements:
    """Directories of other machines are on the desk; a passphrase is made by the page itself."""
    return [
        (r"/etc/portico/", repeat("")),
        (r"/backups/", repeat("")),
        (r"/backups ", repeat(". ")),
        (r"\$\(date [^)]*\)", repeat("2026-11-22-0300")),
        (r"ssh backup@elsewhere '([^']*)'", repeat("cat >portico.zip")),
        (r"--data-dir data\b", repeat("--data-dir restored")),
    ]


def _faults(stack: Stack) -> Replacements:
    """A shop of the page's reader, and one of a tenant that an operator helps."""
    stack.create_instance("shop")
    stack.api("POST", "tenants", {"name": "faulty"})
    rates = {"produce_rate_bytes_per_s": 10**6, "consume_rate_bytes_per_s": 10**6}
    order = {"name": "shop", "capacity_bytes": 10**9, "whitelist": ["127.0.0.1/32"], **rates}
    made = stack.api("POST", "instances", order, tenant="faulty")
    stack.wait_for_state(made["id"], "running")
    return [(r"\bacme\b", repeat("faulty"))]


def _operations(stack: Stack) -> Replacements:
    """Two deleted instances, one with a group, and topics of the cluster."""
    deleted = [stack.create_instance(name)["id"] for name in ("gone-1", "gone-2")]
    for instance_id in deleted:
        stack.api("DELETE", f"instances/{instance_id}")
    lives = stack.create_instance("lives")
    stack.api("POST", f"instances/{lives['id']}/topics", {"name": "orders", "partitions": 2})
    _committed(str(lives["bootstrap_servers"]))
    stack.api("POST", "tenants", {"name": "works"})
    directory = stack.data_dir / "broker-1" / "logs"
    return [
        (r"\[--name OTHER\]", repeat("--name other")),
        (r"\bID\b", [*deleted, lives["id"]]),
        (r"\bGROUP\b", repeat("readers")),
        (r"\bDIRECTORY\b", repeat(str(directory))),
        (r"\bacme\b", repeat("works")),
    ]


def _committed(bootstrap_servers: str) -> None:
    """A group has read a record."""
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce("orders", b"1")
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    consumer.close()


PREPARE: Final[dict[str, Callable[[Stack], Replacements]]] = {
    "docs/alarms.md": _alarms,
    "docs/api.md": _api,
    "docs/backup.md": _backups,
    "docs/clients.md": _shop,
    "docs/faults.md": _faults,
    "docs/operations.md": _operations,
}
"""What a page takes for granted, and what its names stand for."""


class Replacer:
    """What a page's names stand for here. `ID` stands for several things, one after another."""

    def __init__(self, stack: Stack, replacements: Replacements) -> None:
        self._stack = stack
        self._values = [(re.compile(pattern), iter(values)) for pattern, values in replacements]

    def in_text(self, text: str) -> str:
        """The text as it is run."""
        for pattern, values in self._values:
            text = pattern.sub(lambda _, values=values: next(values), text)  # type: ignore[misc]
        text = text.replace(_CONSOLE, self._stack.console_url).replace(_UNIT, "| tee portico.service")
        text = re.sub(r"\bDATA\b", str(self._stack.data_dir), text)
        return text.replace(_ADDRESS, str(_address(self._stack))) if _ADDRESS in text else text


_FIRST: Final = ("README.md", "docs/index.md", "docs/tenant.md", "docs/clients.md", "docs/api.md")
"""What a newcomer meets is run each time, other pages in the tier `long`."""


def _page(path: Path) -> Any:
    name = str(path.relative_to(ROOT))
    return pytest.param(path, id=name, marks=() if name in _FIRST else pytest.mark.long)


@pytest.mark.parametrize("page", [_page(each) for each in PAGES])
@pytest.mark.timeout(420)
def test_what_the_page_shows_runs(desk: Path, cleared: Stack, page: Path) -> None:
    stack = cleared
    shown = [(kind, run_here(text) if kind == "sh" else text) for kind, text in fences(page)]
    if not any(text for _, text in shown):
        pytest.skip("it shows nothing, or nothing that is run here")
    replace = Replacer(stack, PREPARE.get(str(page.relative_to(ROOT)), lambda _: [])(stack))
    for kind, text in shown:
        run(desk, stack.data_dir, kind, replace.in_text(text))


def test_what_is_run_elsewhere_is_shown_somewhere_and_is_run_there() -> None:
    lines = [line for page in PAGES for kind, text in fences(page) if kind == "sh" for line in lines_of(text)]
    assert lines
    for each in ELSEWHERE:
        assert any(elsewhere(line) is each for line in lines), f"no page shows {each.head}"
        if each.test:
            assert each.by in (ROOT / each.test).read_text(), each
