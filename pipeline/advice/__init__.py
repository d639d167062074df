"""Advice: how even an instance's traffic is, what it will be, which size fits, which partitions to move.

Pure: `forecast`, `skew`, `ladder` and `moves` on plain numbers; `hours`, `windows`, `skewed`, `judgement`,
`counterfactual` and `rows` between those and rows of tables. `frames` runs them over Spark's, `job` reads and
writes.
"""
