import pytest

from runtime.config import ConfigFault, Setting, format_host_port, parse_host_port, resolve

SETTINGS = (Setting("workers", 2, int, "processes"), Setting("vip", "127.0.0.1", str, "address"))


def test_flag_before_environment_before_file_before_default() -> None:
    def value(
        flags: dict[str, str | None], env: dict[str, str], file: dict[str, object]
    ) -> tuple[object, str]:
        found = resolve(SETTINGS, flags, env, file, "portico.toml")["workers"]
        return found.value, found.origin

    assert value({"workers": "5"}, {"PORTICO_WORKERS": "4"}, {"workers": 3}) == (5, "--workers")
    assert value({"workers": None}, {"PORTICO_WORKERS": "4"}, {"workers": 3}) == (4, "PORTICO_WORKERS")
    assert value({}, {}, {"workers": 3}) == (3, "portico.toml: workers")
    assert value({}, {}, {}) == (2, "default")


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ConfigFault) as caught:
        resolve(SETTINGS, {"workers": "many"}, {}, {"wrokers": 3}, "portico.toml")
    assert len(caught.value.faults) == 2
    assert "unknown setting 'wrokers'" in caught.value.faults[0]


@pytest.mark.parametrize("text", ["127.0.0.1:8080", "[::1]:80", "localhost:0"])
def test_host_and_port_survive_a_round_trip(text: str) -> None:
    assert format_host_port(*parse_host_port(text)) == text


@pytest.mark.parametrize("text", ["", "8080", ":8080", "host:", "host:x", "host:70000", "host:-1"])
def test_what_is_not_host_and_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not HOST:PORT"):
        parse_host_port(text)
