"""What a compaction or an audit has to do, pure."""
