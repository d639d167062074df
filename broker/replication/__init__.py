"""Replication: a partition's role, its followers' progress, the ISR and the high watermark."""
