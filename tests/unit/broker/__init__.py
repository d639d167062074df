"""Unit tests of the broker server and its handlers."""
