"""Produce and Fetch, the messages that carry records, as brokers read and write them. Pure."""
