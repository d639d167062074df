"""Tests of loadtests."""
