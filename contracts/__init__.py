"""Portico's own messages and names, shared by every process. No IO."""
