"""One system a data directory. The lock is the kernel's, so one left behind by a killed run holds nobody up."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from portal.supervisor.checks import Unfit


@contextmanager
def only_one(data: Path) -> Iterator[None]:
    """Hold ``data`` until the block ends.

    Raises:
        Unfit: another run holds it; the message says which process that is.
    """
    with (data / "up.pid").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Unfit(
                f"Gangway runs already in {data} (process {file.read().strip() or 'unknown'}): "
                "stop that one, or give this one a directory of its own with GANGWAY_DATA"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
        file.truncate(0)
