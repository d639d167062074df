"""Advice: how even an instance's traffic is, what it will be, which size fits, which partitions to move.

`judging` is pure: numbers in, rows and sentences out. `rows` puts them together, `job` reads usage, writes;
`backtest` says how wrong days to full are.
"""
