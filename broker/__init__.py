"""The built-in replicated log."""
