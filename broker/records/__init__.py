"""Requests that carry records: how clients' Fetch and ListOffsets are answered."""
