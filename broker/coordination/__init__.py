"""What the cores of groups and transactions share. Pure."""
