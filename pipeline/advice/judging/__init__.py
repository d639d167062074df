"""What hourly figures say of an instance, pure."""
