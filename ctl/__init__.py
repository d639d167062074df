"""The command line: embedded stack, operator tools, benchmarks."""
