"""People of a tenant: what they are called, which passwords they may have. Pure.

A name belongs to its tenant: whoever asks for one in another tenant learns nothing of it.
"""

from typing import Final

from contracts.shapes import LETTER, matching
from tenants.rules.lifecycle import Fault, name_fault, unfit
from tenants.rules.model import DEFAULT_TENANT
from tenants.rules.permissions import STAFF, Role

MEMBERS_MAX: Final = 200
"""People of one tenant, invited ones included."""
PASSWORD_CHARS_MIN: Final = 10
PASSWORD_CHARS_MAX: Final = 256
PASSWORD_SHAPE: Final = f"^{LETTER}{{{PASSWORD_CHARS_MIN},{PASSWORD_CHARS_MAX}}}$"
"""What a password looks like that a person chooses."""
_PASSWORD: Final = matching(PASSWORD_SHAPE)
INVITATION_HOURS: Final = 72
"""How long an invitation's link is good, unless it says otherwise."""
INVITATION_HOURS_MAX: Final = 30 * 24
_USER_CHARS_MAX: Final = 128


def user_name(tenant: str, name: str) -> str:
    """What a member logs in with: NAME@TENANT, in the default tenant NAME. A whole one stays as it is."""
    short, at, home = name.rpartition("@")
    if at:
        return short if home == DEFAULT_TENANT else name
    return name if tenant == DEFAULT_TENANT else f"{name}@{tenant}"


def invitation_faults(tenant: str, name: str, role: Role) -> list[Fault]:
    """What is wrong with a member to be."""
    found = []
    fault = name_fault(name, "a member")
    if fault is not None:
        found.append(Fault("name", fault))
    elif len(user_name(tenant, name)) > _USER_CHARS_MAX:
        most = _USER_CHARS_MAX - 1
        found.append(
            unfit("name", f"the name and that of the tenant have at most {most} characters together")
        )
    if role in STAFF and tenant != DEFAULT_TENANT:
        found.append(unfit("role", f"operators and admins belong to tenant '{DEFAULT_TENANT}'"))
    return found


def password_faults(field: str, password: str, name: str) -> list[Fault]:
    """What is wrong with a password that a person chooses. Length is what counts (NIST SP 800-63B)."""
    if not PASSWORD_CHARS_MIN <= len(password) <= PASSWORD_CHARS_MAX:
        return [Fault(field, f"a password has {PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters")]
    if _PASSWORD.match(password) is None:
        return [Fault(field, "a password has no control characters")]
    if password.lower() in (name.lower(), name.partition("@")[0].lower()) or len(set(password)) < 4:
        return [unfit(field, "this is among the first that are tried: choose another")]
    return []
