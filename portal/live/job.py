"""One job as its socket shows it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from scheduler import selectors
from scheduler.picture import Picture, Touched


class JobBoard:
    """``{"job": …}`` as the live state has it; None before it got there and once it has left."""

    def __init__(self, picture: Picture, job_id: str) -> None:
        self._picture, self._job_id = picture, job_id
        self._shown: dict[str, Any] | None = None

    def load(self) -> int:
        revision, self._shown = self._read()
        return revision

    def take(self, touched: Touched) -> tuple[int, dict[str, Any] | None]:
        if self._job_id not in touched.jobs and self._awaited().isdisjoint(touched.nodes):
            return touched.revision, None
        before = self._shown
        revision, self._shown = self._read()
        return revision, None if self._shown == before else self.snapshot()

    def snapshot(self) -> dict[str, Any]:
        return {"job": self._shown}

    def _awaited(self) -> set[str]:
        """The nodes that a start waits for."""
        placed = self._shown["allocation"] if self._shown is not None else ()
        return {place["node"] for place in placed if place["unready"] is not None}

    def _read(self) -> tuple[int, dict[str, Any] | None]:
        live = selectors.live_job(self._picture, self._job_id)
        if live is None:
            return self._picture.revision, None
        shown = asdict(live)
        return shown.pop("revision"), shown
