"""`portico oauth`: by whose tokens clients of an instance log in."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ctl.command import Commands
from ctl.confirm import Yes, confirm
from ctl.console_client import instance_path
from ctl.console_options import TenantConsole
from ctl.errors import usage
from ctl.options import InstanceArgument
from ctl.output import Answer, in_facts, terminal

app = Commands()


@app.command("set")
def set_provider(
    console: TenantConsole,
    instance: InstanceArgument,
    issuer: Annotated[str, typer.Option(metavar="URL", help="Who makes the tokens: their claim iss.")],
    audience: Annotated[str, typer.Option(metavar="TEXT", help="For whom they are: one of their claim aud.")],
    jwks_file: Annotated[
        Path, typer.Option("--jwks-file", metavar="FILE", help="The provider's public keys, a JWK set.")
    ],
    principal_claim: Annotated[
        str, typer.Option(metavar="CLAIM", help="The claim that says who a client is.")
    ] = "sub",
    scope: Annotated[str, typer.Option(metavar="SCOPE", help="One that tokens have to have.")] = "",
    clock_skew_ms: Annotated[
        int, typer.Option(metavar="MS", help="How far the provider's clock may be from ours.")
    ] = 30_000,
) -> Answer:
    """Let clients log in by tokens (SASL OAUTHBEARER), beside users with passwords."""
    body = {
        "issuer": issuer,
        "audience": audience,
        "jwks": _document(jwks_file),
        "principal_claim": principal_claim,
        "scope": scope,
        "clock_skew_ms": clock_skew_ms,
    }
    return _answer(console.call("PUT", instance_path(instance, "oauth"), body))


@app.command()
def show(console: TenantConsole, instance: InstanceArgument) -> Answer:
    """Show whose tokens are taken, and by which keys."""
    return _answer(console.get(instance_path(instance, "oauth")))


@app.command()
def remove(console: TenantConsole, instance: InstanceArgument, yes: Yes = False) -> Answer:
    """Take tokens no more; connections that came with one are cut."""
    confirm("Clients that log in by tokens are cut off.", yes=yes)
    console.call("DELETE", instance_path(instance, "oauth"))
    return Answer({"removed": True}, lambda: terminal().print("no tokens are taken any more"))


def _document(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise usage(f"{path} is no JSON: {error}") from error


def _answer(oauth: Mapping[str, str]) -> Answer:
    if not oauth["issuer"]:
        return Answer(oauth, lambda: terminal().print("No tokens are taken."))
    shown = [
        *((name, str(oauth[name])) for name in ("issuer", "audience", "principal_claim")),
        ("scope", oauth["scope"] or "any"),
        ("clock skew", f"{oauth['clock_skew_ms']} ms"),
        ("keys", ", ".join([*oauth["keys"]])),
    ]
    return in_facts(oauth, shown)
