"""The Kafka protocol, pure: framing, headers, API tables, name rewriting, edits, record-batch headers."""
