"""What a copy has to read and write next, pure."""
