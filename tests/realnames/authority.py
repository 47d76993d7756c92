"""A certificate authority of the test's own, and certificates that cover the names that the services' own cover."""

from __future__ import annotations

import datetime
import re
import ssl
import subprocess
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Services whose certificate covers one label before a name, and the name: `*.s3.eu-central-1.amazonaws.com` does not
# cover a bucket with a dot. https://docs.aws.amazon.com/AmazonS3/latest/userguide/VirtualHosting.html
COVERED_TOGETHER = re.compile(
    r"(?:.+\.)?((?:s3(?:\.dualstack)?(?:[.-][a-z0-9-]+)?\.amazonaws\.com(?:\.cn)?)"
    r"|(?:(?:blob|queue|file|dfs|table)\.core\.[a-z.]+)"
    r"|(?:vault(?:-int)?\.[a-z.]+)"
    r"|(?:[a-z0-9]+\.batch\.[a-z.]+))"
)
DAY = datetime.timedelta(days=1)


def covered(name: str) -> tuple[str, ...]:
    """Return the names that the certificate for *name* covers.

    >>> covered("jobs.s3.eu-central-1.amazonaws.com")
    ('s3.eu-central-1.amazonaws.com', '*.s3.eu-central-1.amazonaws.com')
    >>> covered("batch.eu-central-1.amazonaws.com")
    ('batch.eu-central-1.amazonaws.com',)
    """
    found = COVERED_TOGETHER.fullmatch(name)
    return (found[1], f"*.{found[1]}") if found else (name,)


class Authority:
    """Signs a certificate for every name that a client asks for by SNI."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.bundle = folder, folder / "authority.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._made = self._certificate("runspec test authority", self._key, ())
        self.bundle.write_bytes(self._made.public_bytes(serialization.Encoding.PEM))
        self.context = cache(self._context)

    def directory(self) -> Path:
        """Return a folder like /etc/ssl/certs that holds this authority alone, under its hash as well."""
        found = self.folder / "certs"
        found.mkdir(exist_ok=True)
        content = self.bundle.read_bytes()
        line = ["openssl", "x509", "-noout", "-hash", "-in", str(self.bundle)]
        name = subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip()
        for file in (f"{name}.0", "ca-certificates.crt"):
            (found / file).write_bytes(content)
        return found

    def _context(self, names: tuple[str, ...]) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        pem = serialization.Encoding.PEM
        plain = serialization.NoEncryption()
        file = self.folder / f"{names[0]}.pem"
        file.write_bytes(
            self._certificate(names[0], key, names).public_bytes(pem)
            + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        )
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        found.load_cert_chain(file)
        return found

    def _certificate(
        self, subject: str, key: ec.EllipticCurvePrivateKey, names: tuple[str, ...]
    ) -> x509.Certificate:
        """Without *names*, it is the authority's own."""
        now = datetime.datetime.now(datetime.UTC)
        own = self._key.public_key()
        begun = (
            x509.CertificateBuilder()
            .subject_name(_name(subject))
            .issuer_name(self._made.subject if names else _name(subject))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.BasicConstraints(ca=not names, path_length=None), critical=True)
            .add_extension(_usage(authority=not names), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own), False)
        )
        if names:
            alternative = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
            server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
            begun = begun.add_extension(alternative, False).add_extension(server, False)
        return begun.sign(self._key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
