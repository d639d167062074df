"""The metadata tree: ZooKeeper's data model (`contracts.tree`), kept by ZooKeeper or by a file."""
