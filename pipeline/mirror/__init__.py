"""The mirror: topics of one instance or cluster copied to another, in order and exactly once (ADR 0014)."""
