"""Advice: how even an instance's traffic is, what it will be, which size fits, which partitions to move.

`skew`, `forecast`, `ladder`, `judgement` and `moves` decide and are pure; `frames` runs them over Spark's
tables, `job` reads and writes those.
"""
