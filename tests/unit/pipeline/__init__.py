"""What of the pipeline needs no Spark."""
