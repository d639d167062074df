"""What decides about connections: memory, order of replies, frames that drip. Pure."""
