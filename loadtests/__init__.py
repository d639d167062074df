"""Load tests (locust): scenarios with a report, plots and a verdict; `docs/loadtests.md` describes them.

They make load on a stack with real sockets, measure, and compare with bounds that are kept. Raw load, frames
and measures are those of `ctl/bench`: there is one way to make load.
"""
