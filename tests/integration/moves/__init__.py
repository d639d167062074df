"""Instances move between clusters, with real clients."""
