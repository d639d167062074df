"""Foreign programs that people run beside their Kafka, each at a vip:vport with a second tenant beside it."""
