"""`portico acl`: what the users of an instance may do, as Kafka's ACLs."""

from typing import Annotated, TypedDict

import typer

from ctl.command import Commands
from ctl.confirm import Yes, confirm
from ctl.console_client import instance_path
from ctl.console_options import TenantConsole
from ctl.errors import usage
from ctl.options import InstanceArgument
from ctl.output import Answer, in_facts, in_table

app = Commands()


class _Acls(TypedDict):
    enforced: bool
    items: list[dict[str, str]]


Topic = Annotated[str | None, typer.Option("--topic", metavar="NAME", help="A topic; '*': all of them.")]
Group = Annotated[str | None, typer.Option("--group", metavar="NAME", help="A group; '*': all of them.")]
Transactional = Annotated[
    str | None, typer.Option("--transactional-id", metavar="NAME", help="A transactional id; '*': all.")
]
Cluster = Annotated[bool, typer.Option("--cluster", help="The instance as a whole.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="The name is what names begin with.")]
Principal = Annotated[
    str | None,
    typer.Option("--user", metavar="NAME", help="A user; '*': everybody; ANONYMOUS: without a login."),
]
Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="From this address only.")]
Operations = Annotated[
    list[str] | None, typer.Option("--operation", metavar="OPERATION", help="read, write, ... all.")
]
Deny = Annotated[bool, typer.Option("--deny", help="Refuse it, whatever others allow.")]
_COLUMNS = ["USER", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST"]


def _resource(
    topic: str | None, group: str | None, transactional_id: str | None, cluster: bool, prefixed: bool
) -> dict[str, str]:
    given = {
        "topic": topic,
        "group": group,
        "transactional_id": transactional_id,
        "cluster": "kafka-cluster" if cluster else None,
    }
    named = {kind: name for kind, name in given.items() if name is not None}
    if len(named) > 1:
        raise usage("give one of --topic, --group, --transactional-id and --cluster")
    resource = {}
    for kind, name in named.items():
        resource = {"resource_type": kind, "resource_name": name}
    if prefixed:
        resource["pattern_type"] = "prefixed"
    return resource


@app.command("list")
def list_acls(console: TenantConsole, instance: InstanceArgument) -> Answer:
    """List the ACLs of an instance."""
    return _answer(console.get(instance_path(instance, "acls")))


@app.command()
def create(
    console: TenantConsole,
    instance: InstanceArgument,
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="A user; '*': everybody.")],
    operation: Annotated[list[str], typer.Option("--operation", metavar="OPERATION", help="read, ...")],
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transactional = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Host = None,
    deny: Deny = False,
) -> Answer:
    """Allow a user something, or refuse it; ACLs decide where they are enforced."""
    resource = _resource(topic, group, transactional_id, cluster, prefixed)
    if "resource_name" not in resource:
        raise usage("say on what: --topic, --group, --transactional-id or --cluster")
    items = [
        {
            **resource,
            "principal": f"User:{user}",
            "operation": one,
            "permission": "deny" if deny else "allow",
            **({} if host is None else {"host": host}),
        }
        for one in operation
    ]
    return _answer(console.call("POST", instance_path(instance, "acls"), {"items": items}))


@app.command()
def delete(
    console: TenantConsole,
    instance: InstanceArgument,
    user: Principal = None,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transactional = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Host = None,
    yes: Yes = False,
) -> Answer:
    """Delete the ACLs that all that is given is true of."""
    meant = _resource(topic, group, transactional_id, cluster, prefixed)
    if user is not None:
        meant["principal"] = f"User:{user}"
    if host is not None:
        meant["host"] = host
    if not meant and not operation:
        raise usage("say which: --user, --topic, --group, ...")
    confirm(f"ACLs of {instance} are deleted: who needs them is refused from then on.", yes=yes)
    deleted: list[dict[str, str]] = []
    for params in [{**meant, "operation": one} for one in operation or ()] or [meant]:
        deleted += console.call("DELETE", instance_path(instance, "acls"), params=params)["items"]
    return in_table(deleted, _COLUMNS, _rows(deleted), empty="No such ACLs.")


@app.command()
def enforce(console: TenantConsole, instance: InstanceArgument, yes: Yes = False) -> Answer:
    """Have ACLs decide: what none allows is refused to all but superusers."""
    confirm(
        "Clients are refused what no ACL allows them, those without a login (User:ANONYMOUS) too.",
        yes=yes,
    )
    return _enforcement(console.call("PATCH", instance_path(instance, "acls"), {"enforced": True}))


@app.command()
def relax(console: TenantConsole, instance: InstanceArgument, yes: Yes = False) -> Answer:
    """Have ACLs decide nothing: everybody who is admitted may do everything."""
    confirm("Everybody who is admitted may do everything from then on.", yes=yes)
    return _enforcement(console.call("PATCH", instance_path(instance, "acls"), {"enforced": False}))


def _enforcement(acls: _Acls) -> Answer:
    facts = [("acls", len(acls["items"])), ("enforced", "yes" if acls["enforced"] else "no")]
    return in_facts(acls, facts)


def _answer(acls: _Acls) -> Answer:
    empty = "No ACLs." if not acls["enforced"] else "No ACLs: only superusers may do anything."
    return in_table(acls, _COLUMNS, _rows(acls["items"]), empty=empty)


def _rows(items: list[dict[str, str]]) -> list[list[str]]:
    return [
        [
            one["principal"].removeprefix("User:"),
            one["permission"],
            one["operation"],
            one["resource_type"],
            one["resource_name"],
            one["pattern_type"],
            one["host"],
        ]
        for one in items
    ]
