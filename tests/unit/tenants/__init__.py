"""Tests of tenants/."""
