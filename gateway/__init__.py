"""The tenant-facing Kafka endpoint."""
