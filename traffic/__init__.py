"""The traffic point: meter, token bucket, lease. Pure decisions, hosted by a broker."""
