"""Which settings of an identity provider are refused, before anything is asked of it."""

from dataclasses import replace

import pytest

from tenants.rules.oidc_settings import OidcSettings, settings_fault

from .provider import CLIENT, CONSOLE, ISSUER, SECRET

SETTINGS = OidcSettings(issuer=ISSUER, client_id=CLIENT, client_secret=SECRET, console_url=CONSOLE)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"issuer": "http://id.example.com"}, "https"),
        ({"issuer": "https://user:x@id.example.com"}, "user"),
        ({"issuer": "https://id.example.com/?x=1"}, "query"),
        ({"console_url": "ftp://console"}, "console URL"),
        ({"client_id": ""}, "client id"),
        ({"groups_claim": "\n"}, "groups claim"),
    ],
)
def test_settings_that_are_refused(change: dict[str, str], word: str) -> None:
    good = replace(SETTINGS, console_url="http://127.0.0.1:8080")
    assert settings_fault(good) is None
    assert word in (settings_fault(replace(good, **change)) or "")
    assert settings_fault(SETTINGS) is not None  # http:// of another host than this machine
