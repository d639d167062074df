"""Who may do what at a gateway, pure."""
