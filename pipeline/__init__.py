"""The data pipeline on Spark: what the service carries and reports becomes tables, bills and advice.

`transforms` are pure functions from DataFrames to DataFrames, `jobs` read, transform and write, `schema` says
what the tables hold.
"""
