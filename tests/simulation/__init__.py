"""Whole brokers in one process on a virtual clock: network, disks and deaths are made up from a seed."""
