"""Sockets and frames: from a listener to a handler, and the reply back."""
