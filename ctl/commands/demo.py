"""`portico demo`: provision two instances and keep every promise before the user's eyes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ctl.console_client import Console
from ctl.console_options import TenantConsole
from ctl.errors import CommandError
from ctl.output import terminal

if TYPE_CHECKING:
    from ctl.demo.acts import Seen


def demo(console: TenantConsole) -> int:
    """Show mapping, limits, blocking and the whitelist on a running stack, with standard clients."""
    from rich.markup import escape
    from rich.table import Table

    screen = terminal(markup=True)
    table = Table(title="What you saw", show_lines=False)
    for column in ("promise", "seen", ""):
        table.add_column(column, overflow="fold")
    all_kept = True
    screen.print(f"Watch it at [bold]{console.url}[/] while it runs (about a minute).")
    for seen in _acts(console):
        mark = "[green]kept[/]" if seen.kept else "[red]NOT kept[/]"
        screen.print(f"{mark}  {seen.promise}: {escape(seen.seen)}", soft_wrap=True)
        table.add_row(seen.promise, escape(seen.seen), mark)
        all_kept = all_kept and seen.kept
    screen.print(table)
    if not all_kept:
        raise CommandError("not every promise was kept: see the table")
    return 0


def _acts(console: Console) -> Iterator["Seen"]:
    from confluent_kafka import KafkaException
    from kafka.errors import KafkaError

    from ctl.demo import acts

    try:
        tenancy, seen = acts.provision(console)
        yield seen
        yield acts.carry(tenancy)
        yield from acts.overdrive(tenancy)
        yield from acts.fill(tenancy)
        yield acts.whitelist(tenancy)
    except (KafkaException, KafkaError) as error:
        raise CommandError(f"a Kafka client failed: {error} (see `portico doctor`)") from error
