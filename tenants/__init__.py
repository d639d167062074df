"""The control plane: store, use cases, console API and pages."""
