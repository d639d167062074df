"""The quota master."""
