"""The quota master: collects the points' reports, applies the quota rule, grants leases, and shows why."""
