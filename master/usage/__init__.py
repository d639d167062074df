"""Usage records out of reported counters, pure."""
