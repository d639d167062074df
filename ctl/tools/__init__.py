"""What operators do with a cluster as a whole, by Kafka's own APIs and in its physical names."""
