"""NVIDIA's catalogue of Xids: what each calls for.

https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, column "Resolution Bucket (Immediate Action)".
"""

from __future__ import annotations

import re

from scheduler.core.types import Remedy

IGNORED = frozenset({43, 63, 92, 121, 137})
RESTARTED = frozenset({8, 11, 13, 31, 69, 94})
RESET = frozenset({46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 158})
REBOOTED = frozenset({79})
WORKFLOWS = frozenset({45, 48, 74, *range(144, 151)})
RECOVERY = 154
"""Names the action itself, by the number that NVML's field 230 has, too."""

OWN = frozenset({8, 11, 13, 31, 43, 45, 69})
"""The faults that a program brings about by itself: an address that is none, an instruction that is none."""

OUT_OF_ORDER = (WORKFLOWS - {45}) | RESET | REBOOTED
"""After these the GPU takes no work. 45 comes whenever a program is killed, ours too, and says nothing by itself."""

_RECOVERIES = {0: Remedy.IGNORE, 1: Remedy.RESET_GPU, 2: Remedy.REBOOT_HOST, 3: Remedy.RESET_GPU, 4: Remedy.RESET_GPU}
_TO = re.compile(r"\bto 0x([0-9a-f]+)", re.IGNORECASE)


def remedy(xid: int, text: str) -> Remedy:
    """What the Xid calls for; ``text`` is what follows its number in the line. What is not in the catalogue is noted
    and nothing else."""
    if xid == RECOVERY:
        told = _TO.search(text)
        return recovery(int(told[1], 16)) if told else Remedy.WORKFLOW
    for numbers, wanted in _BY_NUMBER:
        if xid in numbers:
            return wanted
    return Remedy.IGNORE


def recovery(action: int) -> Remedy:
    """What the driver's own recovery action is; one that is not known yet is for a person."""
    return _RECOVERIES.get(action, Remedy.WORKFLOW)


_BY_NUMBER = (
    (RESTARTED, Remedy.RESTART_APP),
    (RESET, Remedy.RESET_GPU),
    (REBOOTED, Remedy.REBOOT_HOST),
    (WORKFLOWS, Remedy.WORKFLOW),
)
