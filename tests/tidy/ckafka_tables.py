"""The tables of docs/ckafka.md, made from the table of actions.

`python -m tests.tidy.ckafka_tables --rewrite` renews what stands between the two markers; a test compares it.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tenants.ckafka.actions import ACTIONS, UNSUPPORTED
from tests.tidy.bounds_tables import ROOT, table

PAGE: Final[Path] = ROOT / "docs" / "ckafka.md"
BEGIN: Final = "<!-- begin of what is made from the code: python -m tests.tidy.ckafka_tables --rewrite -->"
END: Final = "<!-- end of what is made from the code -->"


def rendered() -> str:
    """Everything between the markers."""
    served = table(
        ("action", "the same in the REST API", "means nothing here", "refused"),
        (
            (
                f"`{one.name}`" + (" (changes)" if one.changes else ""),
                f"`{one.rest}`" if one.rest and "`" not in one.rest else one.rest,
                _codes(one.ignored),
                _codes(one.refused),
            )
            for one in ACTIONS.values()
        ),
    )
    reasons = dict.fromkeys(UNSUPPORTED.values())
    unsupported = table(
        ("`UnsupportedOperation` because", "actions"),
        ((why, _codes([name for name, each in UNSUPPORTED.items() if each == why])) for why in reasons),
    )
    said = f"{len(ACTIONS)} actions are served. Those that change something need an owner's key."
    return f"### Served\n\n{said}\n\n{served}\n\n### Known, and not served\n\n{unsupported}"


def _codes(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def of_page(text: str) -> str:
    """What stands between the markers of a page."""
    return text.split(BEGIN, 1)[1].split(END, 1)[0].strip()


if __name__ == "__main__":
    if sys.argv[1:] != ["--rewrite"]:
        raise SystemExit("usage: python -m tests.tidy.ckafka_tables --rewrite")
    before, behind = PAGE.read_text().split(BEGIN, 1)
    PAGE.write_text(f"{before}{BEGIN}\n\n{rendered()}\n\n{END}{behind.split(END, 1)[1]}")
