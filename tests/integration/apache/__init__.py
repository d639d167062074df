"""Apache Kafka, real, on this machine."""
