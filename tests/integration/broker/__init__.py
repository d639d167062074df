"""Integration tests of the broker: real clients against `python -m broker`."""
