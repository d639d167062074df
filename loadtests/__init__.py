"""Load tests (locust). They measure and print; no test asserts a time."""
