"""Which partition of an internal topic owns a key: Kafka's `Utils.abs(key.hashCode) % partitions`. Pure."""


def java_hash(text: str) -> int:
    """Java's String.hashCode, as a signed 32-bit number."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        value = (31 * value + (encoded[at] << 8 | encoded[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(key: str, partitions: int) -> int:
    """The partition that owns a group or a transactional id."""
    hashed = java_hash(key)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partitions
