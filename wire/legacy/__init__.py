"""What kio does not have: Produce 0-2, Fetch 0-3 and ListOffsets 0, and the message formats v0 and v1."""
