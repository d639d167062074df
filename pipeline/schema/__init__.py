"""Schemas of the tables: the one place that names their columns and types."""
