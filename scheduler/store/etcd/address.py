"""Where etcd is and how to speak to it, from one URL.

``http://10.0.0.1:2379``, several members as ``https://a:2379,b:2379,c:2379?ca=/etc/ca.pem&cert=…&key=…``, a user as
``https://name:password@a:2379``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

_FILES = ("ca", "cert", "key")


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of PEM. Without ``ca`` the system's authorities are trusted; ``cert`` and ``key`` show who we are."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """``endpoints`` are ``host:port``. ``tls`` is None for plain text."""

    endpoints: tuple[str, ...]
    tls: Tls | None = None
    user: str | None = None
    password: str = ""

    @classmethod
    def parse(cls, url: str) -> Address:
        """
        Raises:
            ValueError: it is no such URL; the message says why and leaves the password out.
        """
        scheme, _, rest = url.partition("://")
        if scheme not in ("http", "https") or not rest:
            raise ValueError("an etcd URL begins with http:// or https://")
        authority, _, query = rest.partition("?")
        credentials, _, hosts = authority.rpartition("@")
        user, _, password = credentials.partition(":")
        return cls(
            endpoints=tuple(_endpoint(host) for host in hosts.rstrip("/").split(",")),
            tls=_tls(scheme, query),
            user=unquote(user) or None,
            password=unquote(password),
        )


def _endpoint(text: str) -> str:
    """``host:port`` of one member; each may repeat the scheme, as in etcd's own lists."""
    parts = urlsplit("//" + text.rpartition("://")[2].strip("/ "))
    if not parts.hostname or parts.path:
        raise ValueError(f"{text!r} is no host:port of an etcd member")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{parts.port or 2379}"


def _tls(scheme: str, query: str) -> Tls | None:
    options = parse_qs(query, strict_parsing=True) if query else {}
    unknown = sorted(set(options) - set(_FILES))
    if unknown:
        raise ValueError(f"an etcd URL knows ca, cert and key, not {', '.join(unknown)}")
    if scheme == "http":
        if options:
            raise ValueError("ca, cert and key belong to an https:// URL")
        return None
    if ("cert" in options) != ("key" in options):
        raise ValueError("cert and key go together")
    return Tls(**{name: Path(options[name][-1]) for name in _FILES if name in options})
