"""What `portico backup` keeps, and how it comes back (ADR-0029)."""
