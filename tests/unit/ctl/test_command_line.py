"""Wrong usage ends with one sentence and exit code 2, failure with one sentence and 1; never a trace."""

import subprocess
import sys
from pathlib import Path

import pytest

PROXIES = "10.0.0.1,10.0.0.2,10.1.0.0/16"


def portico(
    *arguments: str, cwd: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[str]":
    root = str(Path(__file__).resolve().parents[3])
    return subprocess.run(
        [sys.executable, "-m", "runtime.start", "ctl.main", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": root, **environment},
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["frob"], "No such command 'frob'"),
        (["instance", "create", "x", "--produce-rate", "1MB/s"], "Missing option '--consume-rate'"),
        (["instance", "list", "--bad"], "No such option: --bad"),
        (["up", "--workers", "none"], "'none' is not a number from 1 to 256"),
        (["up", "--vports", "9-1"], "range of ports"),
        (["up", "--vip", "nonsense"], "'nonsense' is not an address"),
        (["up", "--console", "127.0.0.1:0"], "needs a port of its own"),
        (["up", "--metrics", "127.0.0.1:65400"], "266 ports are needed from it on"),
        (["test", "--tier", "moon"], "there is no tier 'moon'"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str, tmp_path: Path) -> None:
    result = portico(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_instance_create_asks_who_may_connect(tmp_path: Path) -> None:
    rates = ["--produce-rate", "1MB/s", "--consume-rate", "1MB/s", "--capacity", "1GB"]
    result = portico("instance", "create", "x", *rates, cwd=tmp_path)
    assert result.returncode == 2
    assert "--whitelist" in result.stderr and "--allow-all" in result.stderr


def test_a_size_that_is_none_is_wrong_usage(tmp_path: Path) -> None:
    result = portico("instance", "resize", "x", "--capacity", "10XB", cwd=tmp_path)
    assert result.returncode == 2
    assert "'10XB' is not a size" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_job_limit_that_would_end_every_job_is_wrong_usage(tmp_path: Path) -> None:
    result = portico("up", "--pipeline-job-limit", "5s", cwd=tmp_path)
    assert result.returncode == 2
    assert "'5s' is less than a minute" in result.stderr


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["insta"], "instance"),
        (["instance", "cre"], "create"),
        (["instance", "create", "x", "--partitions-d"], "--partitions-default"),
    ],
)
def test_bash_completes_what_is_typed(typed: list[str], offered: str, tmp_path: Path) -> None:
    """By the script that is printed for it, in a real bash."""
    called = tmp_path / "portico"
    called.write_text(f'#!/bin/sh\nexec {sys.executable} -m runtime.start ctl.main "$@"\n')
    called.chmod(0o700)
    script = portico(_PORTICO_COMPLETE="source_bash").stdout  # whatever shell pytest was started by
    words = " ".join(("portico", *typed))
    asked = f"{script}\nCOMP_WORDS=({words}) COMP_CWORD={len(typed)}; _portico_completion portico"
    answer = subprocess.run(
        ["bash", "-c", f'{asked}; printf "%s\\n" "${{COMPREPLY[@]}}"'],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
    )
    assert answer.stdout.split() == [offered], answer.stderr


def test_without_a_stack_the_sentence_says_what_to_do(tmp_path: Path) -> None:
    result = portico("instance", "list", cwd=tmp_path)
    assert result.returncode == 1
    assert "portico up" in result.stderr


def test_a_console_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    result = portico("instance", "list", PORTICO_URL="http://127.0.0.1:9", PORTICO_API_KEY="k", cwd=tmp_path)
    assert result.returncode == 1
    assert "does not answer" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--data-dir", "/proc/none"], "the data directory /proc/none cannot be written"),
        (["--console", "203.0.113.1:8080"], "the console cannot listen on 203.0.113.1:8080"),
    ],
)
def test_a_stack_that_cannot_start_says_why(arguments: list[str], says: str, tmp_path: Path) -> None:
    result = portico("up", *arguments, cwd=tmp_path)
    assert result.returncode == 1
    assert says in result.stderr
    assert "Traceback" not in result.stderr


def test_config_show_is_readable_for_people(tmp_path: Path) -> None:
    (tmp_path / "portico.toml").write_text(
        'trusted_proxies = "10.0.0.1,10.0.0.2,10.1.0.0/16"\ndeletion_grace = "36h"\n'
    )
    result = portico("config", "show", "--data-dir", str(tmp_path), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    shown = {line.split()[0]: line.split()[1] for line in result.stdout.splitlines() if line.strip()}
    assert shown["trusted_proxies"] == "10.0.0.1,10.0.0.2,10.1.0.0/16"
    assert (shown["console"], shown["vports"], shown["metrics"]) == (
        "127.0.0.1:8080",
        "20000-29999",
        "127.0.0.1:9400",
    )
    assert (shown["deletion_grace"], shown["prometheus_dir"]) == ("36h", "-")
    assert "next start" in result.stdout


def test_config_show_tells_value_and_origin(tmp_path: Path) -> None:
    (tmp_path / "portico.toml").write_text("workers = 3\n")
    result = portico(
        "config", "show", "--data-dir", str(tmp_path), "--json", PORTICO_VIP="127.0.0.9", cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    assert '"origin": "PORTICO_VIP"' in result.stdout
    assert "portico.toml: workers" in result.stdout


def test_passwords_of_a_redis_and_a_prometheus_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "portico.toml").write_text(
        'redis_url = "redis://:hunter2@127.0.0.1:6379/0"\n'
        'series_prometheus = "https://ops:hunter2@prometheus.example.com"\n'
    )
    for form in ((), ("--json",)):
        shown = portico("config", "show", "--data-dir", str(tmp_path), *form)
        assert shown.returncode == 0
        assert "redis://:***@127.0.0.1:6379/0" in shown.stdout
        assert "https://ops:***@prometheus.example.com" in shown.stdout
        assert "hunter2" not in shown.stdout + shown.stderr
