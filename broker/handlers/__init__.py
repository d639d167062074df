"""One module per Kafka API; handlers never import one another."""
