"""The settings of ``Policy`` for a large, contended fleet; the bare defaults of ``Policy`` are those of a scenario.

docs/design/004 says what each of them does, and what was measured.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

HOUR_MS = 3_600_000

FLEET: dict[str, Any] = {
    "length_weight": Fraction(1),
    "length_most_ms": 60 * HOUR_MS,
    "size_ms": 24 * HOUR_MS // 128,
    "gathers": 2,
    "gang_reservations": 12,
    "host_reservations": 4,
    "rack_wait_ms": 24 * HOUR_MS,
    "evict_every_ms": 600_000,
    "share_patience_ms": HOUR_MS // 2,
}
