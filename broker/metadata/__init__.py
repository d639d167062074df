"""What the cluster knows: nodes of the metadata tree, names, and the copy that answers Metadata."""
