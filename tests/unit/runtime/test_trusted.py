"""What HTTP clients trust."""

import ssl

from runtime.trusted import authorities, verify_of


def test_behind_plain_http_nobody_is_trusted() -> None:
    context = verify_of("http://127.0.0.1:8080")
    assert isinstance(context, ssl.SSLContext)
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert context.cert_store_stats() == {"x509": 0, "crl": 0, "x509_ca": 0}, "a redirect to TLS ends there"


def test_behind_tls_authorities_are() -> None:
    assert verify_of("HTTPS://console.example.com") is True
    assert authorities().verify_mode is ssl.CERT_REQUIRED and authorities().check_hostname
    assert authorities() is authorities(), "they are read once"
