"""What addresses and texts look like: patterns that rules go by and the API's document says, of what ECMA-262
and Python's `re` read alike.

Source of addresses: RFC 3986, section 3.2.2; they are those that `ipaddress` takes, but for zones.
"""

import re
from typing import Final

_HIDDEN: Final = r"\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
"""Control characters, and what hides or turns others."""
LETTER: Final = f"[^{_HIDDEN}]"
"""What may stand in a text that is shown."""
WORD_LETTER: Final = f"[^{_HIDDEN} ]"
"""The same but a space."""

_BYTE: Final = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_GROUP: Final = "[0-9A-Fa-f]{1,4}"
IPV4: Final = rf"{_BYTE}(\.{_BYTE}){{3}}"
_LAST: Final = f"({_GROUP}:{_GROUP}|{IPV4})"


def _behind(left_max: int, right: str) -> str:
    """`::`, with so many groups before it at most and these behind it."""
    return f"({_GROUP}(:{_GROUP}){{0,{left_max - 1}}})?::{right}" if left_max else f"::{right}"


IPV6: Final = "({})".format(
    "|".join(
        [
            f"({_GROUP}:){{6}}{_LAST}",
            *(_behind(left, f"({_GROUP}:){{{5 - left}}}{_LAST}") for left in range(6)),
            _behind(6, _GROUP),
            _behind(7, ""),
        ]
    )
)
ADDRESS: Final = f"({IPV4}|{IPV6})"
_HOST: Final = r"([A-Za-z0-9][A-Za-z0-9._-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])"
_PORT: Final = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
HOST_PORT: Final = f"{_HOST}:{_PORT}"
"""A host by its name or address, which nobody has looked up, and its port."""
BASE_URL_SHAPE: Final = f'^[Hh][Tt][Tt][Pp][Ss]?://{_HOST}(:{_PORT})?(/[!-"$->@-~]*)?$'
"""Of http or https, without user, query and fragment."""
URL_SHAPE: Final = f'^[Hh][Tt][Tt][Pp][Ss]?://{_HOST}(:{_PORT})?([/?][!-"$-~]*)?$'
"""The same, perhaps with a query."""
CIDR: Final = f"({IPV4}(/(3[0-2]|[12]?[0-9]))?|{IPV6}(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?)"
"""An address, or a network by its address and prefix."""


def matching(shape: str) -> re.Pattern[str]:
    """A shape of the document, `^...$`, to be matched whole: Python's `$` is also before a last newline."""
    assert shape.startswith("^") and shape.endswith("$"), shape
    return re.compile(shape[:-1] + r"\Z")
