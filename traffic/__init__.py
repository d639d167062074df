"""The traffic point: meter, token bucket, lease and block per instance. No IO, no clock."""
