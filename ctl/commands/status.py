"""`portico status`: whether instances can be served, how many there are, and what is alarming."""

from collections import Counter
from typing import Final

from ctl.console_options import TenantConsole
from ctl.errors import EXIT_FAILED
from ctl.output import Answer, print_facts

_SHOWN_MAX: Final = 10


def status(console: TenantConsole) -> Answer:
    """Show whether instances can be served (else the exit code is 1), how many there are, and what is raised.

    Operators: --tenant '*' for everybody's and their own.
    """
    health = console.get("health")
    instances = Counter(one["state"] for one in console.all_items("instances"))
    raised = console.all_items("alarms")
    facts: list[tuple[str, object]] = [("status", health["status"])]
    gateways = health.get("gateways")
    if gateways is not None:  # operators are told
        live = sum(one["live"] for one in gateways)
        facts.append(("brokers", f"{health['brokers_live']} live"))
        facts.append(("gateways", f"{live} of {len(gateways)} live"))
        facts.append(("quota master", "answers" if health["quota_master"] else "does not answer"))
        if health["absent_instances"]:
            facts.append(("absent", f"{health['absent_instances']} instances that no database knows"))
    states = ", ".join(f"{count} {state}" for state, count in sorted(instances.items()))
    facts.append(("instances", states or "none"))
    facts.append(("alarms", f"{len(raised)} raised" if raised else "none"))
    for one in raised[:_SHOWN_MAX]:
        of = one["instance_name"] or one["subject"] or "deployment"
        facts.append(("", f"{of}: {one['kind']}, {one['says']}"))
    if len(raised) > _SHOWN_MAX:
        facts.append(("", f"and {len(raised) - _SHOWN_MAX} more: portico alarm list"))
    document = {"health": health, "instances": dict(instances), "alarms": raised}
    code = 0 if health["status"] == "ok" else EXIT_FAILED
    return Answer(document, lambda: print_facts(facts), code)
