"""Several brokers over a real ZooKeeper."""
