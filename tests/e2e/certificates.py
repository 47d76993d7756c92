"""A certificate for this machine's loopback address, and somebody who vouches for it: both made here."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runspec_rehearsal.listening import HOST, Certificate


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _begun(subject: str, key: ec.EllipticCurvePrivateKey, ca: bool) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name("nobody"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )


def made(folder: Path) -> Certificate:
    """Make both, below *folder*. Whoever vouches shows another one: rustls takes no other."""
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    vouching = _begun("nobody", authority, ca=True).sign(authority, hashes.SHA256())
    shown = _begun(HOST, own, ca=False).add_extension(here, critical=False)
    pem = serialization.Encoding.PEM
    key = own.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    found = Certificate(folder / "shown.pem", folder / "key.pem", folder / "authority.pem")
    found.shown.write_bytes(shown.sign(authority, hashes.SHA256()).public_bytes(pem))
    found.key.write_bytes(key)
    found.authority.write_bytes(vouching.public_bytes(pem))
    return found
