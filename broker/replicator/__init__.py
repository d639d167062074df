"""Replication at work: links to leaders, fetches of followers, the ISR's writer."""
