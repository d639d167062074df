"""Allocation of quotas: decisions over reported traffic, pure."""
