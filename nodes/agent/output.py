"""What one rank has written: a file that only grows, of which what is no longer needed is given back to the disk.

The rank appends to it and never learns of anything here. Offsets mean the same for ever: space is given back by
punching holes, not by cutting or renaming.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

BLOCK = 4096
"""Holes are punched in whole blocks of this size."""
_PUNCH_AND_KEEP_SIZE = 0x03
_NO_HOLES = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

_libc = ctypes.CDLL(None, use_errno=True)


class Output:
    """The log file of one rank, which may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._given_back = 0
        self._can_punch = True

    def size(self) -> int:
        """Bytes written so far, those that were given back included."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def read(self, start: int, most: int) -> tuple[int, bytes]:
        """Up to ``most`` bytes from ``start`` on, or from where there is something again; answers where they begin."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return start, b""
        try:
            begins = os.lseek(descriptor, start, os.SEEK_DATA)
            return begins, os.pread(descriptor, most, begins)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing from there on
                return max(start, self.size()), b""
            raise
        finally:
            os.close(descriptor)

    def give_back(self, before: int) -> None:
        """Free the disk that the bytes before ``before`` take, where the file system can."""
        until = before // BLOCK * BLOCK
        if until <= self._given_back or not self._can_punch:
            return
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            self._punch(descriptor, until)
        finally:
            os.close(descriptor)
        self._given_back = until

    def _punch(self, descriptor: int, until: int) -> None:
        length = until - self._given_back
        begin, size = ctypes.c_int64(self._given_back), ctypes.c_int64(length)
        if _libc.fallocate(descriptor, _PUNCH_AND_KEEP_SIZE, begin, size) == 0:
            return
        code = ctypes.get_errno()
        if code not in _NO_HOLES:
            raise OSError(code, os.strerror(code), str(self._path))
        self._can_punch = False
