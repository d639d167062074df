"""Step 1 of the rule: whether an instance's producers are blocked."""


def is_blocked(blocked: bool, stored_bytes: int, capacity_bytes: int, unblock_fraction: float) -> bool:
    """Block at capacity; unblock only below `unblock_fraction` of it, so that it does not flap."""
    if stored_bytes >= capacity_bytes:
        return True
    return blocked and stored_bytes >= int(capacity_bytes * unblock_fraction)
