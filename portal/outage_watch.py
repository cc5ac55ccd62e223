"""Sees when a store does not answer: each web process asks them all, over and over, in a thread of its own.

An outage is kept once it is over, and PostgreSQL itself answers. Until then this process remembers it; one that ends
meanwhile forgets it, and the others have seen it too.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from threading import Event, Thread

import structlog
from django.db import DatabaseError, connection
from django.utils import timezone

from portal.api import health
from scheduler import outages
from scheduler.outages import Outage

log = structlog.get_logger(__name__)

EVERY_S = 3.0
TWICE = 2
"""So many questions in a row that were not answered are an outage: a single one may be a moment's load."""


class OutageWatch:
    """``away`` maps the stores that do not answer now to when that began."""

    def __init__(
        self,
        ask: Callable[[], dict[str, str]] = health.ask,
        record: Callable[[Outage], object] = outages.record,
        now: Callable[[], datetime] = timezone.now,
    ) -> None:
        self._ask, self._record, self._now = ask, record, now
        self._silent: dict[str, tuple[datetime, int]] = {}
        self._over: list[Outage] = []
        self._ended = Event()
        self._thread: Thread | None = None

    @property
    def away(self) -> dict[str, datetime]:
        return {store: since for store, (since, times) in list(self._silent.items()) if times >= TWICE}

    def start(self) -> None:
        self._thread = Thread(target=self._run, name="outages", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(health.BOUND_S + 1)

    def step(self) -> None:
        """Ask once, and keep what is over."""
        began = self._now()
        for store, answer in self._ask().items():
            if answer != "ok":
                since, times = self._silent.get(store, (began, 0))
                self._silent[store] = since, times + 1
            elif store in self._silent:
                since, times = self._silent.pop(store)
                if times >= TWICE:
                    self._over.append(Outage(store, since, self._now()))
        if self._over and "postgresql" not in self._silent:
            self._keep()

    def _keep(self) -> None:
        try:
            while self._over:
                self._record(self._over[0])
                log.warning("a store is back", store=self._over[0].store, since=self._over[0].start.isoformat())
                del self._over[0]
        except DatabaseError as error:
            log.warning("an outage is recorded later", error=str(error))
        finally:
            connection.close()  # this thread belongs to no request that would

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            self.step()


watch = OutageWatch()
"""This process's own."""
