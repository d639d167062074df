"""What a use case refuses, in the words of its cause. The REST layer maps each to a problem."""

from collections.abc import Sequence

from tenants.rules.ceilings import Excess
from tenants.rules.lifecycle import Fault


class Refused(Exception):  # noqa: N818 - an answer, not a malfunction
    """A request that is answered with a reason; `detail` is one sentence that says what to do."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Invalid(Refused):
    """Fields of the request are wrong, or do not fit (`unfit`); all at once."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(f"{fault.field}: {fault.message}" for fault in faults))
        self.faults = tuple(faults)


class NotFound(Refused):
    """There is no such thing, or it is somebody else's: both look the same."""


class Conflict(Refused):
    """The thing exists already, or its state does not allow this."""


class Exists(Conflict):
    """Something of that name is there already."""


class Stale(Refused):
    """The caller has seen an older state of the thing than the one that it is in."""


class Unauthenticated(Refused):
    """No credentials, or wrong ones."""


class Forbidden(Refused):
    """The caller's role does not allow this."""


class TooMany(Refused):
    """Too many attempts; `retry_after_s` says when to come back."""

    def __init__(self, detail: str, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class Unavailable(Refused):
    """Something this answer needs does not answer itself: a broker, the quota master."""


class LimitReached(Refused):
    """An order is beyond what a tenant may have or a cluster may sell; `excesses` has the numbers, which
    of a cluster are the operators' business: others are told theirs only (`is_told` False)."""

    def __init__(self, owner: str, excesses: Sequence[Excess], *, is_told: bool = True) -> None:
        self.sentences = tuple(one.sentence(owner) if is_told else one.refusal(owner) for one in excesses)
        super().__init__(f"{'; '.join(self.sentences)}: order less, or ask the operator")
        self.excesses = tuple(excesses)
        self.is_told = is_told


def no_instance(reference: str) -> NotFound:
    """The one answer for an instance that is not there or not the caller's."""
    return NotFound(f"there is no instance '{reference[:80]}'")
