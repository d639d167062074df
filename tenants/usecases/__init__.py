"""What can be done in the control plane. Calls of the store block: the REST layer runs them in threads."""
