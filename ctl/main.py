"""`portico`: the command line (design: Command contract)."""

import os
import sys
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from ctl.command import Commands
from ctl.errors import EXIT_FAILED, EXIT_USAGE, CommandError
from ctl.installation import version
from runtime.logs import configure
from runtime.process import own_files_only

_COMMANDS: Final = {
    "up": "up.up",
    "down": "down.down",
    "status": "status.status",
    "systemd-unit": "systemd_unit.systemd_unit",
    "demo": "demo.demo",
    "doctor": "doctor.doctor",
    "backup": "backup.backup",
    "restore": "backup.restore",
    "drill": "drill.drill",
    "loadtest": "loadtest.loadtest",
    "metrics": "metrics.metrics",
    "test": "selftest.run_tests",
}
"""Name -> function below `ctl.commands`. Only the modules of the command that runs are imported: those of all
take longer than most commands do."""
_VERSION: Final = "--version"
_OPTIONS: Final[dict[str, dict[str, object]]] = {
    "loadtest": {
        "add_help_option": False,
        "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
    }
}
_GROUPS: Final = {
    "bench": ("bench.app", "Measure ratios against a peer in the same run."),
    "instance": ("instance.app", "Instances of a tenant."),
    "member": ("member.app", "People of a tenant, who log in at the console."),
    "group-role": ("group_role.app", "Groups of the identity provider, let in as members (operators)."),
    "bill": ("bill.app", "What instances cost."),
    "alarm": ("alarm.app", "What is alarming, and why."),
    "email": ("email.app", "Addresses that alarms are mailed to."),
    "webhook": ("webhook.app", "Who is told of alarms, by signed messages."),
    "fault": ("fault.app", "Faults that a tenant injects into its own instance."),
    "whitelist": ("whitelist.app", "Who may connect."),
    "user": ("user.app", "Users of an instance, whom its clients log in as."),
    "oauth": ("oauth.app", "By whose tokens clients of an instance log in."),
    "acl": ("acl.app", "What the users of an instance may do."),
    "topic": ("topic.app", "Topics of an instance."),
    "message": ("message.app", "Messages of a topic."),
    "decoding": ("decoding.app", "Schemas that messages are shown by, and masked fields."),
    "group": ("group.app", "Consumer groups of an instance."),
    "replica": ("replica.app", "Replicas of partitions (operators)."),
    "leader": ("leader.app", "Who leads partitions (operators)."),
    "reassign": ("reassign.app", "Move partitions to other brokers (operators)."),
    "txn": ("txn.app", "Transactions, and those that hang (operators)."),
    "log": ("log.app", "Files of logs, without a running broker (operators)."),
    "statelog": ("statelog.app", "What the controller told the brokers (operators)."),
    "pipeline": ("pipeline.app", "Jobs on Spark: lake, usage, bills, mirrors, advice."),
    "quota": ("quota.app", "What the quota master allots and why."),
    "tenant": ("tenant.app", "Tenants (operators)."),
    "cluster": ("cluster.app", "What clusters may sell, and all their topics (operators)."),
    "gateway": ("gateway.app", "Gateway workers of this stack."),
    "kafka": ("kafka.app", "An Apache Kafka on this machine, for development and tests."),
    "key": ("tenant.keys", "API keys."),
    "admin": ("admin.app", "Administration of this stack."),
    "config": ("config.app", "Settings of this stack."),
}
"""Name -> commands of one kind, and what they are about."""


def command_line(name: str | None = None) -> typer.Typer:
    """The commands, or only the one of this name if there is one."""
    app = Commands(
        name="portico",
        help="Managed Kafka for many tenants.",
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    if name in _COMMANDS or name in _GROUPS:
        chosen = {name}
    else:
        chosen = set() if name == _VERSION else _COMMANDS.keys() | _GROUPS.keys()
    for each, place in _COMMANDS.items():
        if each in chosen:
            app.command(each, **_OPTIONS.get(each, {}))(_found(place))
    for each, (place, about) in _GROUPS.items():
        if each in chosen:
            app.add_typer(_found(place), name=each, help=about)
    return app


def _found(place: str) -> Any:
    module, _, name = place.partition(".")
    return getattr(import_module(f"ctl.commands.{module}"), name)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"portico {version()}")
        raise typer.Exit


def _options(
    _version: Annotated[
        bool, typer.Option(_VERSION, callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What holds for every command."""


def _first_word() -> str | None:
    """Of the command: the one that runs, or the one that a shell wants completed."""
    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS")
    words = typed.split() if typed and "_PORTICO_COMPLETE" in os.environ else sys.argv
    return next(iter(words[1:]), None)


def main() -> None:
    """Run a command: 0 done, 1 the operation failed (one sentence on stderr), 2 wrong usage."""
    own_files_only()
    configure("portico")
    try:
        code = command_line(_first_word())(prog_name="portico", standalone_mode=False)
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
