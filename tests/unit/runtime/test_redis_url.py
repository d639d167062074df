"""How a Redis is named, and that its password is shown nowhere."""

import pytest

from runtime.redis_link import parse_redis_url


@pytest.mark.parametrize(
    "text",
    ["redis://h", "redis://h:6379/0", "rediss://u:p@h:1/15", "redis://[::1]:6379", "unix:///run/redis.sock"],
)
def test_urls(text: str) -> None:
    assert parse_redis_url(text).text == text


@pytest.mark.parametrize(
    "text", ["", "h:6379", "http://h", "redis://", "redis://h:x", "redis://h/y", "unix://"]
)
def test_what_is_not_a_url_is_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match=r"^the URL of Redis is redis://"):
        parse_redis_url(text)
    with pytest.raises(ValueError, match=r"^(?!.*hunter2)"):
        parse_redis_url(f"http://:hunter2@{text}")


def test_a_password_is_not_shown() -> None:
    url = parse_redis_url("redis://user:hunter2@host:6379/0")
    assert str(url) == "redis://user:***@host:6379/0"
    assert "hunter2" not in repr({"redis_url": url})
