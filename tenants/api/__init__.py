"""The console's REST API under /v1: models, problems, authentication, routes."""
