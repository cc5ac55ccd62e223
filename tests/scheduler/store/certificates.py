"""Throw-away certificates for servers on loopback."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def authority(path: Path, name: str) -> tuple[Path, Path]:
    """A self-signed authority: its certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    built = _builder(name, name, key).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return _write(path, built.sign(key, hashes.SHA256()), key)


def certificate(path: Path, ca: Path, ca_key: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, signed by the authority, and its key."""
    signer = serialization.load_pem_private_key(ca_key.read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(ca.read_bytes()).subject.rfc4514_string().removeprefix("CN=")
    key = ec.generate_private_key(ec.SECP256R1())
    loopback = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    built = _builder("loopback", issuer, key).add_extension(loopback, critical=False)
    return _write(path, built.sign(signer, hashes.SHA256()), key)


def _builder(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _write(path: Path, made: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> tuple[Path, Path]:
    certificate_path, key_path = path.with_suffix(".pem"), path.with_suffix(".key")
    certificate_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    encoding, encryption = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key_path.write_bytes(key.private_bytes(serialization.Encoding.PEM, encoding, encryption))
    return certificate_path, key_path
