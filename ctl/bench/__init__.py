"""Benchmarks: ratios against a peer in the same run, interleaved, min/median/max."""
