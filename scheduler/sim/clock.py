"""The clock of a run: it stands still until it is put forward."""

from __future__ import annotations


class VirtualClock:
    """Milliseconds since the epoch; call it for the time."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def put_forward(self, to_ms: int) -> None:
        """Let time pass until ``to_ms``.

        Raises:
            ValueError: that is in the past.
        """
        if to_ms < self.now_ms:
            raise ValueError(f"{to_ms} is before {self.now_ms}")
        self.now_ms = to_ms
