"""The table of docs/clients.md of foreign programs, made from what the tier `ecosystem` came to.

`python -m tests.tidy.ecosystem_table --rewrite` renews what is between the markers; a test compares it.
"""

import sys
from pathlib import Path
from typing import Final

from tests.ecosystem.certificate import read
from tests.tidy.bounds_tables import ROOT, table

PAGE: Final[Path] = ROOT / "docs" / "clients.md"
BEGIN: Final = "<!-- made by the tier ecosystem: python -m tests.tidy.ecosystem_table --rewrite -->"
END: Final = "<!-- end of what the tier ecosystem made -->"


def rendered() -> str:
    """Everything between the markers."""
    return table(
        ("program", "what ran", "records", "killed with -9", "what held"),
        ((name, one.ran, f"{one.records:,}", one.killed, one.held) for name, one in read().items()),
    )


def of_page(text: str) -> str:
    """What stands between the markers of a page."""
    return text.split(BEGIN, 1)[1].split(END, 1)[0].strip()


if __name__ == "__main__":
    if sys.argv[1:] != ["--rewrite"]:
        raise SystemExit("usage: python -m tests.tidy.ecosystem_table --rewrite")
    before, behind = PAGE.read_text().split(BEGIN, 1)
    PAGE.write_text(f"{before}{BEGIN}\n\n{rendered()}\n\n{END}{behind.split(END, 1)[1]}")
