"""`portico`: the command line (design: Command contract)."""

import sys
from typing import Annotated

import typer

from ctl.commands import (
    admin,
    backup,
    bench,
    cluster,
    config,
    demo,
    doctor,
    down,
    drill,
    fault,
    group,
    instance,
    leader,
    loadtest,
    log,
    metrics,
    pipeline,
    quota,
    reassign,
    replica,
    selftest,
    statelog,
    systemd_unit,
    tenant,
    topic,
    txn,
    up,
    whitelist,
)
from ctl.errors import EXIT_FAILED, EXIT_USAGE, CommandError
from ctl.installation import version
from runtime.process import own_files_only

app = typer.Typer(
    name="portico",
    help="Managed Kafka for many tenants.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"portico {version()}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What holds for every command."""


app.command("up")(up.up)
app.command("down")(down.down)
app.command("systemd-unit")(systemd_unit.systemd_unit)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.command("drill")(drill.drill)
app.command(
    "loadtest",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(loadtest.loadtest)
app.command("metrics")(metrics.metrics)
app.command("test")(selftest.run_tests)
app.add_typer(bench.app, name="bench", help="Measure ratios against a peer in the same run.")
app.add_typer(instance.app, name="instance", help="Instances of a tenant.")
app.add_typer(fault.app, name="fault", help="Faults that a tenant injects into its own instance.")
app.add_typer(whitelist.app, name="whitelist", help="Who may connect.")
app.add_typer(topic.app, name="topic", help="Topics of an instance, or of the whole cluster (--cluster).")
app.add_typer(group.app, name="group", help="Consumer groups of an instance.")
app.add_typer(replica.app, name="replica", help="Replicas of partitions (operators).")
app.add_typer(leader.app, name="leader", help="Who leads partitions (operators).")
app.add_typer(reassign.app, name="reassign", help="Move partitions to other brokers (operators).")
app.add_typer(txn.app, name="txn", help="Transactions, and those that hang (operators).")
app.add_typer(log.app, name="log", help="Files of logs, without a running broker (operators).")
app.add_typer(statelog.app, name="statelog", help="What the controller told the brokers (operators).")
app.add_typer(pipeline.app, name="pipeline", help="Jobs on Spark: lake, usage, bills, mirrors, advice.")
app.add_typer(quota.app, name="quota", help="What the quota master allots and why.")
app.add_typer(tenant.app, name="tenant", help="Tenants (operators).")
app.add_typer(cluster.app, name="cluster", help="What clusters may sell (operators).")
app.add_typer(tenant.keys, name="key", help="API keys.")
app.add_typer(admin.app, name="admin", help="Administration of this stack.")
app.add_typer(config.app, name="config", help="Settings of this stack.")


def main() -> None:
    """Run a command: 0 done, 1 the operation failed (one sentence on stderr), 2 wrong usage."""
    own_files_only()
    try:
        code = app(prog_name="portico", standalone_mode=False)
    except CommandError as error:
        print(f"portico: {error.sentence}", file=sys.stderr)
        sys.exit(error.code)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        hint = f" (see `{context.command_path} --help`)" if context is not None else ""
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if message.startswith("Usage: "):  # a group without a command: what was asked for is its help
            print(message, file=sys.stderr)
            sys.exit(EXIT_USAGE)
        print(f"portico: {message}{hint}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", EXIT_USAGE))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(EXIT_FAILED)
    except OSError as error:
        print(f"portico: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
