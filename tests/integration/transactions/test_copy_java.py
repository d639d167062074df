"""Apache's newest transactional Java client at vports of our brokers."""

from pathlib import Path

import pytest

from tests.integration.stack import running_stack
from tests.integration.transactions.java_copy import copy_beside_each_other

pytestmark = pytest.mark.java


def test_two_tenants_copy_exactly_once(tmp_path: Path) -> None:
    with running_stack(tmp_path / "data") as stack:
        copy_beside_each_other(
            {name: stack.create_instance(name)["bootstrap_servers"] for name in ("one", "other")}
        )
