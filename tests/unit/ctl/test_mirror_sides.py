"""Where the sides of a mirror are: instances of the console, or what a file of client properties names."""

from pathlib import Path
from typing import Any

import pytest

from ctl.commands.pipeline.mirror import _side
from ctl.errors import CommandError
from pipeline.errors import PipelineError
from pipeline.mirror.planning.address import Address

LOGIN = {"security.protocol": "SASL_SSL", "sasl.password": "secret"}


class Console:
    """A run whose console has one instance."""

    def instance(self, name: str) -> dict[str, str]:
        assert name == "shop-id"
        return {"name": "shop", "bootstrap_servers": "vip:20000"}


RUN: Any = Console()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "other.properties"
    lines = [f"{name}={value}" for name, value in LOGIN.items()]
    path.write_text("\n".join(["bootstrap.servers=one:9093,two:9093", *lines]))
    return path


def test_a_side_is_an_instance_or_what_is_named(file: Path) -> None:
    assert _side(RUN, "shop-id", None, None) == ("shop", Address("vip:20000"))
    assert _side(RUN, "other", "three:9092", None) == ("other", Address("three:9092"))
    assert _side(RUN, "other", None, file) == ("other", Address("one:9093,two:9093", LOGIN))
    assert _side(RUN, "other", "three:9093", file) == ("other", Address("three:9093", LOGIN))


def test_properties_without_an_address_are_an_instances(tmp_path: Path) -> None:
    path = tmp_path / "login"
    path.write_text("sasl.password=secret")
    expected = Address("vip:20000", {"sasl.password": "secret"})
    assert _side(RUN, "shop-id", None, path) == ("shop", expected)


def test_what_is_wrong_with_a_file_is_told_without_its_values(file: Path, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        _side(RUN, "other", None, tmp_path / "absent")
    file.write_text("bootstrap.servers=nowhere")
    with pytest.raises(PipelineError, match="'nowhere' is not HOST:PORT"):
        _side(RUN, "other", None, file)
    file.write_text("secret")
    with pytest.raises(PipelineError, match=r"line 1 of .* is not NAME=VALUE") as refused:
        _side(RUN, "other", None, file)
    assert "secret" not in str(refused.value)
