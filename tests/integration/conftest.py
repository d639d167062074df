"""One stack for the tests that leave it as healthy as they found it."""

from tests.stacks import whole_product

stack = whole_product
