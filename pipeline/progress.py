"""What a job tells while it runs. The shell draws it and passes it on to the console."""

from typing import Protocol


class Progress(Protocol):
    """Absolute numbers, so that telling one twice does no harm. Cheap, and from any thread."""

    def planned(self, units: int, unit: str = "records") -> None:
        """How much there is to do."""

    def done(self, units: int) -> None:
        """How much of it is done."""

    def figures(self, **totals: int) -> None:
        """Totals of this run: `rows`, `bytes`, `dead_letters`, `lag_records` ..."""


class Silent:
    """Tells nobody: for tests and for steps within a larger job."""

    def planned(self, units: int, unit: str = "records") -> None:
        """Nothing."""

    def done(self, units: int) -> None:
        """Nothing."""

    def figures(self, **totals: int) -> None:
        """Nothing."""
