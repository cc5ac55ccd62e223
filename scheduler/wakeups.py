"""Wake-ups: a task is enqueued at once when there is work for it, and only once while a message is waiting.

A wake-up may be dropped because another waits, never because it came at a bad moment: whoever works clears the flag
*before* it reads the state, so whatever was written before a dropped wake-up is seen by the one that waits. A flag
whose message was lost ends by itself; beat's own ticks go on meanwhile.
"""

from __future__ import annotations

import redis
import structlog
from celery import current_app
from kombu.exceptions import OperationalError

from scheduler import connections

log = structlog.get_logger(__name__)

FLAG_ENDS_S = 3
"""After so long a message counts as lost. Beat wakes the same tasks each second anyway."""


class Wakeup:
    """The wake-up of one Celery task. Redis holds the flag; a Redis that is away costs promptness and nothing else."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._flag = f"gangway:waiting:{task}"

    def ring(self) -> bool:
        """Enqueue the task unless a message for it is waiting; answers whether one was enqueued."""
        try:
            if not connections.cache().set(self._flag, "1", nx=True, ex=FLAG_ENDS_S):
                return False
        except redis.RedisError as error:
            log.warning("could not wake a task; beat will", task=self._task, error=str(error))
            return False
        return self._send()

    def _send(self) -> bool:
        try:
            current_app.send_task(self._task, expires=FLAG_ENDS_S, retry=False)
        except (redis.RedisError, OperationalError, OSError) as error:
            log.warning("could not wake a task; beat will", task=self._task, error=str(error))
            self.clear()
            return False
        return True

    def clear(self) -> None:
        """From now on a new message is enqueued: call it before reading the state that the work depends on."""
        try:
            connections.cache().delete(self._flag)
        except redis.RedisError as error:
            log.warning("could not clear a wake-up; it ends by itself", task=self._task, error=str(error))


tick = Wakeup("scheduler.tasks.tick")
recording = Wakeup("scheduler.tasks.record")
looking = Wakeup("scheduler.tasks.look_at_checkpoints")
