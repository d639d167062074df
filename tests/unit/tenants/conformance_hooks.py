"""What schemathesis is told of this API besides its document; `SCHEMATHESIS_HOOKS` names this module."""

import re
import uuid
from typing import Final

import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response

RULES: Final = (
    r"cursor: is not a next_cursor of this listing",
    r"^(window_minutes|threshold): must be \d+ for this kind",
    r"^cron: is not five fields",
    r"^(key|value|headers): is no hex",
    r"^security: certificates are for TLS",
    r"until: must be a time to come, within 30 days",
    r"jwks: has no key that checks ",
    r"id: is not the id in the path",
    r"instance_id: there is no such instance",
    r"role: operators and admins belong to tenant 'default'",
    r"is not an address or CIDR such as",
    r"^bootstrap: .* is not HOST:PORT",
    r"^url: must begin with https",
    r"job: of this one is ",
    r"security: a SASL mechanism and a user go together",
)
"""Refusals of requests that fit the document, whose rule no schema can say: one value by another, by the
clock, by what was answered before."""


@schemathesis.check
def valid_requests_are_taken(_context: CheckContext, response: Response, case: Case) -> None:
    """A request that fits the document is refused for one of the rules alone."""
    if (
        case.meta is None
        or not case.meta.generation.mode.is_positive
        or response.status_code not in (400, 422)
    ):
        return
    told = response.json()
    each = [f"{one['field']}: {one['message']}" for one in told.get("errors") or ()] or [told["detail"]]
    wrong = [sentence for sentence in each if not any(re.search(rule, sentence) for rule in RULES)]
    if wrong:
        raise AssertionError(f"a valid request is refused: {wrong}")


@schemathesis.hook
def before_call(_context: HookContext, case: Case, _kwargs: dict[str, object]) -> None:
    """A new key for each request, as the document says: the same one with another request is refused."""
    for name in list(case.headers or {}):
        if name.lower() == "idempotency-key" and case.headers[name]:
            case.headers[name] = str(uuid.uuid4())
