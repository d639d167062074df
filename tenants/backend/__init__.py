"""Clusters as the console uses them: topics and groups of an instance, by physical names over Kafka."""
