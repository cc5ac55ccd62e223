"""Secrets of an evaluation system: made at random once, kept in the data directory, readable by its owner alone."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def keep(path: Path, length: int = 40) -> str:
    """The secret in the file, made now if there is none."""
    if not path.exists():
        write(path, secrets.token_urlsafe(length))
    return path.read_text()


def write(path: Path, text: str) -> None:
    """Put ``text`` in a file of mode 0600, in one step: a reader finds the old content or the new, never a part."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
