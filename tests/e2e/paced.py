"""The example's training at a pace that the test sets while it runs: `python paced.py FILE …`, with the seconds that a
step takes in the file and the example's own arguments behind it. So it is never over before the test has done with it
all that it wants to, however slow the machine is, and soon over then."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MARK = 1e-6
"""What the example believes that a step takes."""


def main() -> int:
    pace = Path(sys.argv.pop(1))
    sys.path.insert(0, str(EXAMPLES))
    import train_numpy  # type: ignore[import-not-found]

    def sleep(seconds: float) -> None:
        time.sleep(float(pace.read_text()) if seconds == MARK else seconds)

    sys.argv += ["--step-seconds", str(MARK)]
    train_numpy.time = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
    return int(train_numpy.main())


if __name__ == "__main__":
    sys.exit(main())
