"""Columns of `advice`, `skew`, `forecast` and `moves`, partitioned by `run_date`."""

from typing import Final

from contracts.advice import AdviceRow, ForecastRow, MoveRow, SkewRow
from pipeline.schema.columns import columns_of

ADVICE: Final = columns_of(AdviceRow)
SKEW: Final = columns_of(SkewRow)
FORECAST: Final = columns_of(ForecastRow)
MOVES: Final = columns_of(MoveRow)
