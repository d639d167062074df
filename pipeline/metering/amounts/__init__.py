"""Hours, quantities, prices and what they come to, pure."""
