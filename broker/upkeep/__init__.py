"""What a broker does to its logs in the background."""
