"""The Kafka protocol, pure: framing, headers, API tables, name rewriting, frame edits, record-batch headers."""
