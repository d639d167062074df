"""Keeps instances and topics as KafkaInstance and KafkaTopic objects of Kubernetes say."""
