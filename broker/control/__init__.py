"""What is exchanged with the control plane: specs, holdings, traffic."""
