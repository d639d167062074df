"""The group coordinator (classic protocol), pure: no IO, no clock, no randomness. See `coordinator.py`."""
