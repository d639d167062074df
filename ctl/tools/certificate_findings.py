"""What is wrong with certificates and keys in files, or soon will be: those that gateways show to tenants'
clients, and those that we show to brokers of an Apache Kafka."""

import ipaddress
import itertools
import stat
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from contracts.upstream import CA_FILE, CERTIFICATE_FILE, KEY_FILE
from ctl.tools.findings import Finding
from gateway.certificates import Certificates, TlsFiles

ENDS_SOON: Final = timedelta(days=14)
"""As the alert PorticoCertificateEnds has it."""
_SERVER: Final = ExtendedKeyUsageOID.SERVER_AUTH
_CLIENT: Final = ExtendedKeyUsageOID.CLIENT_AUTH
_USES: Final = {_SERVER: "servers", _CLIENT: "clients"}
_RENEW: Final = "exchange the files, the key first: new connections get the new one, and none ends"
_Read = TypeVar("_Read")


def gateway_findings(files: TlsFiles, host: str | None, now: datetime) -> Iterator[Finding]:
    """Of what gateways show. `host` is the one that clients are told; None: they are told several."""
    found = list(_pair("certificate", files.certificate, files.key, _SERVER, now, host))
    if files.client_ca is not None:
        found += _authorities("authority of clients", files.client_ca, now)
    failure = Certificates(files).failure
    if failure and not any(one.level == "bad" for one in found):
        found.append(Finding("bad", "certificate", f"gateways do not take it: {failure}", _RENEW))
    yield from found


def cluster_findings(credentials_dir: Path, now: datetime) -> Iterator[Finding]:
    """Of what brokers of each cluster are shown, and trusted by."""
    for folder in sorted(credentials_dir.iterdir()) if credentials_dir.is_dir() else ():
        subject = f"cluster {folder.name}"
        if (folder / CA_FILE).exists():
            yield from _authorities(f"{subject}, its authority", folder / CA_FILE, now)
        if (folder / CERTIFICATE_FILE).exists():
            pair = folder / CERTIFICATE_FILE, folder / KEY_FILE
            yield from _pair(f"{subject}, our certificate", *pair, _CLIENT, now, None)


def _pair(
    subject: str,
    certificate: Path,
    key: Path,
    use: ObjectIdentifier,
    now: datetime,
    host: str | None,
) -> Iterator[Finding]:
    chain = _read(subject, certificate, x509.load_pem_x509_certificates)
    loaded = _read(f"{subject}'s key", key, lambda text: load_pem_private_key(text, None))
    if not isinstance(loaded, Finding):
        yield from _key_mode(f"{subject}'s key", key)
    for failed in (chain, loaded):
        if isinstance(failed, Finding):
            yield failed
    if isinstance(chain, Finding):
        return
    leaf = chain[0]
    if not isinstance(loaded, Finding) and _public(loaded.public_key()) != _public(leaf.public_key()):
        yield Finding("bad", subject, f"{key} is not the key of {certificate}", _RENEW)
    yield from _dates(subject, chain, now)
    yield from _order(subject, chain)
    yield from _usage(subject, leaf, use)
    if host is not None and not _names(leaf, host):
        advice = f"clients that look at names, as they do by default, refuse it: have one made for {host}"
        yield Finding("warn", subject, f"is not for {host}, which clients are told", advice)


def _authorities(subject: str, path: Path, now: datetime) -> Iterator[Finding]:
    found = _read(subject, path, x509.load_pem_x509_certificates)
    if isinstance(found, Finding):
        yield found
        return
    for one in found:
        if not _is_authority(one):
            advice = "name the one that signs; what it has signed is not trusted otherwise"
            yield Finding("warn", subject, f"{_name(one)} in {path} is no authority's", advice)
    yield from _dates(subject, found, now)


def _read(subject: str, path: Path, load: Callable[[bytes], _Read]) -> _Read | Finding:
    try:
        return load(path.read_bytes())
    except OSError as error:
        return Finding(
            "bad", subject, f"{path} cannot be read: {error.strerror}", "name another, or its mode"
        )
    except TypeError:  # so cryptography says that a passphrase is asked for
        return Finding("bad", subject, f"{path} has a passphrase", "take it off: openssl pkey -in A -out B")
    except ValueError as error:
        return Finding("bad", subject, f"{path} is no PEM file of one: {error}", _RENEW)


def _key_mode(subject: str, path: Path) -> Iterator[Finding]:
    if path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH):
        found = f"{path} is open to other users of this machine"
        yield Finding("warn", subject, found, f"chmod o= {path}")


def _dates(subject: str, chain: Sequence[x509.Certificate], now: datetime) -> Iterator[Finding]:
    """Of each in it: none may be over, whoever it is of."""
    for one in chain:
        begins, ends = one.not_valid_before_utc, one.not_valid_after_utc
        if ends <= now:
            yield Finding("bad", subject, f"{_name(one)} has ended: {_day(ends)}", _RENEW)
        elif begins > now:
            advice = "wait, or look at this machine's clock"
            yield Finding("bad", subject, f"{_name(one)} is not valid before {_day(begins)}", advice)
        elif ends - now < ENDS_SOON:
            yield Finding("warn", subject, f"{_name(one)} ends soon: {_day(ends)}", _RENEW)
        else:
            yield Finding("ok", subject, f"{_name(one)} is good until {_day(ends)}")


def _order(subject: str, chain: Sequence[x509.Certificate]) -> Iterator[Finding]:
    for lower, upper in itertools.pairwise(chain):
        try:
            lower.verify_directly_issued_by(upper)
        except (ValueError, TypeError, InvalidSignature):
            found = f"{_name(upper)} follows {_name(lower)} and has not signed it"
            yield Finding("bad", subject, found, "first its own certificate, then each one's signer")


def _usage(subject: str, leaf: x509.Certificate, use: ObjectIdentifier) -> Iterator[Finding]:
    try:
        uses = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if use not in uses and ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE not in uses:
        yield Finding("bad", subject, f"{_name(leaf)} is not for {_USES[use]}", "have one made for them")


def _names(leaf: x509.Certificate, host: str) -> bool:
    """Whether it is for that host. Names in the subject count for no client of today."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    try:
        return ipaddress.ip_address(host) in names.get_values_for_type(x509.IPAddress)
    except ValueError:
        told = {name.lower() for name in names.get_values_for_type(x509.DNSName)}
        return not told.isdisjoint({host.lower(), "*." + host.lower().partition(".")[2]})


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _public(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _name(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string() or f"number {certificate.serial_number:x}"


def _day(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
