"""The secrets by which agents prove who they are. Only their SHA-256 is kept by the control plane."""

from __future__ import annotations

import hashlib

MIN_LENGTH = 32
MAX_LENGTH = 256
"""Characters of a token that an agent chose itself; the least are 128 bits written in hexadecimal."""


def token_hash(token: str) -> str:
    """The SHA-256 of a token, in hexadecimal. Tokens are random and long: no salt, no stretching."""
    return hashlib.sha256(token.encode()).hexdigest()
