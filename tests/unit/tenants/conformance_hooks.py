"""What schemathesis is told of this API besides its document; `SCHEMATHESIS_HOOKS` names this module."""

import uuid

import schemathesis
from schemathesis import Case, HookContext


@schemathesis.hook
def before_call(_context: HookContext, case: Case, _kwargs: dict[str, object]) -> None:
    """A new key for each request, as the document says, so that what is asked is carried out."""
    for name in list(case.headers or {}):
        if name.lower() == "idempotency-key" and case.headers[name]:
            case.headers[name] = str(uuid.uuid4())
