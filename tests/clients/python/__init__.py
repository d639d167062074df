"""Clients of Python, each as a program of the contract."""
