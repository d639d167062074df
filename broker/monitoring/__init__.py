"""What a broker tells of itself to who watches it."""
