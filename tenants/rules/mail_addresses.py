"""How e-mail addresses look. Pure."""

import re
from typing import Final

ADDRESS_CHARACTERS_MAX: Final = 254
"""An e-mail address (RFC 5321)."""
_LOCAL: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*\Z")
_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\Z")


def fault_of_address(address: str) -> str | None:
    """What is wrong with an address by its looks; None: it may be asked."""
    if len(address) > ADDRESS_CHARACTERS_MAX or not address.isascii() or not address.isprintable():
        return f"must be an e-mail address of at most {ADDRESS_CHARACTERS_MAX} characters of ASCII"
    local, at, domain = address.rpartition("@")
    labels = domain.split(".")
    is_domain = len(labels) > 1 and all(map(_LABEL.match, labels)) and not labels[-1].isdigit()
    if not at or len(local) > 64 or _LOCAL.match(local) is None or not is_domain:
        return "must be an e-mail address like ops@example.com"
    return None


def address_key(address: str) -> str:
    """What addresses of one mailbox have in common, as far as their looks say."""
    local, _, domain = address.lower().rpartition("@")
    return f"{local.partition('+')[0]}@{domain}"
