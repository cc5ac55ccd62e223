"""What is said of why a gang cannot be prepared: one line for people who may not see what the host's owner sees."""

from __future__ import annotations

import re

MOST_CHARACTERS = 200
_LOGIN = re.compile(r"(?<=://)[^/\s@]+@")
"""User and password in an address."""
_SECRET = re.compile(
    r"((?:authorization|bearer|basic|token|password|passwd|secret|signature|credential|api[-_]?key)[\"']?\s*[:=\s]\s*[\"']?)"
    r"(?:(?:bearer|basic)\s+)?[^\s\"'&,;]+",
    re.IGNORECASE,
)


def told(error: Exception) -> str:
    """The error in one printable line without what lets its reader in anywhere."""
    words = str(error)
    if isinstance(error, OSError) and error.strerror:
        words = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in words).split())
    line = _SECRET.sub(r"\1…", _LOGIN.sub("", line)) or type(error).__name__
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"
