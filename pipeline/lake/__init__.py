"""What was loaded of topics, and what is made of it: tables that are Kafka offset by offset."""
