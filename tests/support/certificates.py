"""A certificate for this machine's loopback address, and somebody who vouches for it: both made here."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runspec_emulators.frame.listening import HOST, Certificate

DAY = datetime.timedelta(days=1)
NOTHING = dict.fromkeys(
    (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "encipher_only",
        "decipher_only",
    ),
    False,
)
SIGNS = x509.KeyUsage(key_cert_sign=True, crl_sign=True, **NOTHING)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _begun(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    ca: bool,
    begins: datetime.timedelta = -DAY,
) -> x509.CertificateBuilder:
    """Begin a certificate as RFC 5280 wants it, which Python 3.13 and newer check."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name("nobody"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + DAY)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )


def made(folder: Path, begins: datetime.timedelta = -DAY) -> Certificate:
    """Make an authority and a certificate that it has signed, below *folder*: rustls takes none that signs itself.

    What is shown is valid from *begins* on, as seen from now.
    """
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    address = x509.IPAddress(ipaddress.ip_address(HOST))
    here = x509.SubjectAlternativeName([address, x509.DNSName("localhost")])
    vouching = (
        _begun("nobody", authority, authority, ca=True)
        .add_extension(SIGNS, critical=True)
        .sign(authority, hashes.SHA256())
    )
    shown = (
        _begun(HOST, own, authority, ca=False, begins=begins)
        .add_extension(here, critical=False)
        .sign(authority, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key = own.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    found = Certificate(folder / "shown.pem", folder / "key.pem", folder / "authority.pem")
    found.shown.write_bytes(shown.public_bytes(pem))
    found.key.write_bytes(key)
    found.authority.write_bytes(vouching.public_bytes(pem))
    return found
