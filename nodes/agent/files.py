"""Files that an agent keeps for itself: written in one step, readable by their owner alone."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, raw: bytes) -> None:
    """Put ``raw`` at ``path`` (0600): a crash, of the host as well, leaves the old file or the new one.

    Raises:
        OSError: it cannot be written.
    """
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
