"""The console against the real stack."""
