"""What is remembered of fetches: sessions, and who waits for which partitions. Pure."""
