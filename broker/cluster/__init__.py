"""This broker in its cluster: registration, commands, and the controller's way to tree and brokers."""
