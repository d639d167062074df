"""The shells around the coordinators: partitions, clocks, timers, and the way back to connections."""
