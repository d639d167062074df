"""Real servers that tests start: stores that a deployment would bring along."""
