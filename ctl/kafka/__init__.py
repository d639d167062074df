"""Apache Kafka itself, from Maven Central's jars: for development, tests and benchmarks."""
