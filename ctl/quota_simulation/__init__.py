"""The quota simulator: the real traffic points and the real master on a virtual clock."""
