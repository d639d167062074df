"""`portico webhook`: who is told of alarms, by signed messages over HTTP."""

import time
from typing import Annotated
from urllib.parse import quote

import typer

from ctl.command import Commands
from ctl.confirm import Yes, confirm
from ctl.console_client import Console
from ctl.console_options import TenantConsole
from ctl.errors import CommandError
from ctl.output import Answer, in_facts, in_table, print_facts

app = Commands()

Id = Annotated[str, typer.Argument(metavar="ID", help="As `webhook list` names it.")]
_TEST_S = 15.0


@app.command()
def create(
    console: TenantConsole,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What people call it.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="Where messages are sent.")],
) -> Answer:
    """Make a webhook: its secret is shown once. Operators: --tenant '*' for everybody's alarms."""
    made = console.call("POST", "webhooks", {"name": name, "url": url})
    facts = [("webhook", made["id"]), ("url", made["url"])]
    return in_facts(made, [*facts, ("secret", f"{made['signing_secret']}   (shown once)")])


@app.command("list")
def list_webhooks(console: TenantConsole) -> Answer:
    """List webhooks."""
    found = console.get("webhooks")
    rows = [
        [one["id"], one["name"], one["url"], "yes" if one["enabled"] else "no", one["created_by"]]
        for one in found["items"]
    ]
    return in_table(found, ["ID", "NAME", "URL", "ENABLED", "MADE BY"], rows, empty="No webhook.")


@app.command()
def log(console: TenantConsole, webhook: Id) -> Answer:
    """Show what was sent, and how it went."""
    return log_of(console, _path(webhook))


def log_of(console: Console, path: str) -> Answer:
    """What was sent to a webhook or an e-mail address."""
    found = console.get(f"{path}/deliveries")
    rows = [
        [
            *(one["created_at"], one["event"], one["state"], one["attempts"]),
            *(one["http_status"] or "-", one["reason"], one["next_at"] or "-"),
        ]
        for one in found["items"]
    ]
    columns = ["AT", "EVENT", "STATE", "ATTEMPTS", "ANSWER", "WHY", "NEXT"]
    return in_table(found, columns, rows, empty="Nothing was sent.")


@app.command()
def test(console: TenantConsole, webhook: Id) -> Answer:
    """Send a message that says it is a test, and wait for how that went."""
    return waited_for(console, _path(webhook), console.call("POST", f"{_path(webhook)}/test"))


def waited_for(console: Console, path: str, sent: dict[str, object]) -> Answer:
    """How the sending of a message to a webhook or an e-mail address went. Raises: CommandError."""
    deadline = time.monotonic() + _TEST_S
    while sent["attempts"] == 0 and time.monotonic() < deadline:
        time.sleep(0.2)
        sent = _one(console, path, sent["id"])
    if sent["state"] != "delivered":
        raise CommandError(f"it did not arrive: {sent['reason'] or 'others wait before it'}")
    return in_facts(sent, [("delivered", sent["id"]), ("answer", sent["http_status"])])


@app.command()
def disable(console: TenantConsole, webhook: Id, yes: Yes = False) -> Answer:
    """Have it told of nothing for a while; its log and secret stay."""
    confirm(f"What happens while {webhook} is disabled is never told to it; what waits waits on.", yes=yes)
    return switched(console, "webhook", _path(webhook), enabled=False)


@app.command()
def enable(console: TenantConsole, webhook: Id) -> Answer:
    """Have it told again."""
    return switched(console, "webhook", _path(webhook), enabled=True)


@app.command()
def delete(console: TenantConsole, webhook: Id, yes: Yes = False) -> None:
    """Have it told no more."""
    confirm(f"Webhook {webhook} is told nothing more; what waits is not sent.", yes=yes)
    console.call("DELETE", _path(webhook))
    print_facts([("deleted", webhook)])


def switched(console: Console, what: str, path: str, *, enabled: bool) -> Answer:
    """A webhook or an e-mail address, which is told from now on, or not."""
    changed = console.call("PATCH", path, {"enabled": enabled})
    return in_facts(changed, [(what, changed["id"]), ("enabled", "yes" if changed["enabled"] else "no")])


def _one(console: Console, path: str, message_id: object) -> dict[str, object]:
    items: list[dict[str, object]] = console.get(f"{path}/deliveries")["items"]
    found = next((one for one in items if one["id"] == message_id), None)
    if found is None:
        raise CommandError("its log has the message no more")
    return found


def _path(webhook: str) -> str:
    return f"webhooks/{quote(webhook, safe='')}"
