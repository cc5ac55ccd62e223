"""``checkpoint.json`` in a rank's run directory: how a program tells its agent that it has saved.

The file is the rank's to write, so nothing about it is believed: not its kind, not its size, not what is in it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import structlog

log = structlog.get_logger(__name__)

FILE = "checkpoint.json"
MOST_BYTES = 64 * 1024
MOST_ADDRESS = 2048
"""Characters of a manifest's address; a longer one would be refused by the control plane with the whole report."""
EXACT = (1 << 53) - 1


class _Written(msgspec.Struct, frozen=True):
    """The file as it is."""

    manifest: str
    step: int = 0
    saved_at_ms: int = 0
    work_ms: int | None = None


class Saved(msgspec.Struct, frozen=True):
    """A checkpoint that a rank has told of. ``written_ms`` is when it did, ``saved_at_ms`` when the state was taken.

    ``work_ms`` is the useful work that the program itself says the checkpoint holds; None where it does not say.
    """

    manifest: str
    step: int
    saved_at_ms: int
    written_ms: int
    work_ms: int | None = None


class Acknowledgement:
    """Reads one rank's file, again only when it has changed."""

    def __init__(self, run_directory: Path) -> None:
        self._file = run_directory / FILE
        self._seen: tuple[int, int, int] | None = None
        self._saved: Saved | None = None

    def look(self) -> Saved | None:
        """The last checkpoint that the rank has told of, None where it has not told of any."""
        try:
            handle = os.open(self._file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return self._saved  # not there, or a link
        try:
            found = os.fstat(handle)
            seen = (found.st_mtime_ns, found.st_ino, found.st_size)
            if seen != self._seen and stat.S_ISREG(found.st_mode):
                self._seen = seen
                self._read(os.read(handle, MOST_BYTES), found.st_mtime_ns // 1_000_000)
        finally:
            os.close(handle)
        return self._saved

    def _read(self, raw: bytes, written_ms: int) -> None:
        try:
            written = msgspec.json.decode(raw, type=_Written)
            self._saved = _checked(written, written_ms)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
            log.warning("what a rank says of its checkpoint is of no use", file=str(self._file), error=str(error))


def _checked(written: _Written, written_ms: int) -> Saved:
    if not written.manifest or len(written.manifest) > MOST_ADDRESS or not written.manifest.isprintable():
        raise ValueError(f"manifest must be an address of 1 to {MOST_ADDRESS} characters")
    for name in ("step", "saved_at_ms", "work_ms"):
        value = getattr(written, name)
        if value is not None and not 0 <= value <= EXACT:
            raise ValueError(f"{name} must be from 0 to {EXACT}")
    at_ms = min(written.saved_at_ms or written_ms, written_ms)
    return Saved(written.manifest, written.step, at_ms, written_ms, written.work_ms)
