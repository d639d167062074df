"""What holds of tenants, instances, limits and prices, pure."""
