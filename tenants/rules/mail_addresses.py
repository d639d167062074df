"""How e-mail addresses look. Pure."""

import re
from typing import Final

from contracts.shapes import matching

ADDRESS_CHARACTERS_MAX: Final = 254
"""An e-mail address (RFC 5321)."""
_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_REST: Final = r"([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
ADDRESS_SHAPE: Final = rf"^{_ATOM}(\.{_ATOM})*@([A-Za-z0-9]{_REST}\.)+[A-Za-z]{_REST}$"
"""What an address looks like, but for how long it may be."""
LONG_LOCAL_SHAPE: Final = "^[^@]{65}"
"""How one begins whose part before the @ is too long."""
_ADDRESS: Final = matching(ADDRESS_SHAPE)
_LONG_LOCAL: Final = re.compile(LONG_LOCAL_SHAPE)


def fault_of_address(address: str) -> str | None:
    """What is wrong with an address by its looks; None: it may be asked."""
    if len(address) > ADDRESS_CHARACTERS_MAX or not address.isascii() or not address.isprintable():
        return f"must be an e-mail address of at most {ADDRESS_CHARACTERS_MAX} characters of ASCII"
    if _ADDRESS.match(address) is None or _LONG_LOCAL.match(address) is not None:
        return "must be an e-mail address like ops@example.com"
    return None


def address_key(address: str) -> str:
    """What addresses of one mailbox have in common, as far as their looks say."""
    local, _, domain = address.lower().rpartition("@")
    return f"{local.partition('+')[0]}@{domain}"
