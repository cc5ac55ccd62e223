"""What becomes of the directories of attempts that are over.

The scratch goes at once, the rest once its logs are shipped, or after a while.
"""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

MARK = "over"
KEPT_MS = 24 * 3_600_000
"""For how long logs that could not be shipped can still be read on the host."""


class Retired:
    """The attempts that are over. Removes directories in a thread of its own: a scratch may hold a million files.

    Args:
        runs: the directory of the attempts' directories; what is marked there as over was so in an earlier life.
    """

    def __init__(self, runs: Path) -> None:
        self._removing = ThreadPoolExecutor(1, thread_name_prefix="removals")
        self._over = {mark.parent: mark.stat().st_mtime_ns // 1_000_000 for mark in sorted(runs.glob(f"*/{MARK}"))}

    @property
    def paths(self) -> list[Path]:
        """The directories that are still there, the ones that are longest over first."""
        return list(self._over)

    def has(self, path: Path) -> bool:
        """Whether the attempt at ``path`` is over."""
        return path in self._over

    def take(self, path: Path, scratch: Path, now_ms: int) -> None:
        """The attempt at ``path`` is over."""
        self._removing.submit(_remove, scratch)
        if not path.exists():
            return
        self._over[path] = now_ms
        try:
            (path / MARK).touch()
        except OSError as error:
            log.error("an attempt cannot be marked as over", path=str(path), error=str(error))

    def remove(self, path: Path) -> None:
        """Nobody needs the directory any more."""
        if self._over.pop(path, None) is not None:
            self._removing.submit(_remove, path)

    def sweep(self, now_ms: int) -> None:
        """Remove what has been over for long enough."""
        for path in [path for path, since_ms in self._over.items() if since_ms + KEPT_MS < now_ms]:
            self.remove(path)

    def close(self) -> None:
        """Wait until everything that is to be removed is."""
        self._removing.shutdown()


def _remove(path: Path) -> None:
    def tell(_: object, name: str, failure: tuple[type[BaseException], BaseException, object]) -> None:
        if not isinstance(failure[1], FileNotFoundError):
            log.warning("cannot be removed", path=name, error=str(failure[1]))

    shutil.rmtree(path, onerror=tell)
