"""The feeds of this process, made when the first socket asks for one. A feed belongs to the event loop it runs in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary

from portal.foreseeing import expected_starts, likely_starts
from portal.live.cluster import ClusterBoard
from portal.live.feed import Board, Feed
from portal.live.job import JobBoard
from portal.live.queue import QueueBoard
from scheduler import clock
from scheduler.picture import picture
from scheduler.policy import live_policy

CLUSTER_EVERY_S = 0.2
JOB_EVERY_S = 0.2
QUEUE_EVERY_S = 0.5
"""The queue's order is worked out anew for each message, so it moves at a calmer pace."""

_feeds: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Feed]] = WeakKeyDictionary()


def cluster_feed() -> Feed:
    return _feed("cluster", lambda: ClusterBoard(picture(), clock.now_ms), CLUSTER_EVERY_S)


def queue_feed() -> Feed:
    return _feed(
        "queue", lambda: QueueBoard(picture(), live_policy, clock.now_ms, expected_starts, likely_starts), QUEUE_EVERY_S
    )


def job_feed(job_id: str) -> Feed:
    """A job's feed, kept for as long as somebody watches the job."""
    return _feed(f"job {job_id}", lambda: JobBoard(picture(), job_id), JOB_EVERY_S)


def _feed(name: str, board: Callable[[], Board], interval_s: float) -> Feed:
    here = _feeds.setdefault(asyncio.get_running_loop(), {})
    for unused in [known for known, feed in here.items() if feed.idle and known != name]:
        del here[unused]
    if name not in here:
        here[name] = Feed(picture(), board(), interval_s)
    return here[name]
