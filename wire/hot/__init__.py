"""Produce and Fetch, the messages that carry records, by hand. Pure; no version here is flexible."""
