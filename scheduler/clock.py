"""The wall clock of the live processes: the one place of the control plane that reads it.

Everything else is handed ``now_ms``, a callable like the one here or its answer.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_ms() -> int:
    """Milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


def to_datetime(at_ms: int) -> datetime:
    """A point in time of the records as PostgreSQL keeps it, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def to_ms(at: datetime) -> int:
    """The inverse of ``to_datetime``."""
    return round(at.timestamp() * 1000)
