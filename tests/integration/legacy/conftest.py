"""One broker for the tests that speak to it in frames."""

from tests.integration.broker.conftest import broker, raw

__all__ = ["broker", "raw"]
