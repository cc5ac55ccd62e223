"""The Celery application: workers and beat of the control plane.

    celery -A portal worker -Q scheduler --pool solo            any number, on any hosts; one of them leads
    celery -A portal worker -Q recording --pool threads
    celery -A portal worker -Q default --pool threads      what takes long, apart from the recorder
    celery -A portal worker -Q previews --pool threads     what people wait for that takes a core for long
    celery -A portal worker -Q eta --pool threads -c 1     when jobs start, and how long they run: minutes of a core
    celery -A portal beat

Every worker of the queue ``scheduler`` hears every tick: whoever holds the lease works, the others return at once. On
an ordinary queue a follower would take ticks away from the leader.
"""

from __future__ import annotations

import os

from celery import Celery
from kombu import Queue
from kombu.common import Broadcast

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.local")

ticks = Broadcast("scheduler")

app = Celery("gangway")
app.set_default()  # in every thread, not only in the one that imports this
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.task_queues = (ticks, Queue("recording"), Queue("default"), Queue("previews"), Queue("eta"))
app.conf.task_routes = {
    # A sender has to declare the exchange, or the transport takes it for one that fans nothing out.
    "scheduler.tasks.tick": {"queue": "scheduler", "declare": [ticks.exchange]},
    "scheduler.tasks.repair_fragmentation": {"queue": "scheduler", "declare": [ticks.exchange]},
    "scheduler.tasks.record": {"queue": "recording"},
    "scheduler.tasks.sweep_outbox": {"queue": "recording"},
    "scheduler.tasks.refresh_forecast": {"queue": "default"},
    "scheduler.tasks.look_at_checkpoints": {"queue": "default"},
    "scheduler.tasks.prune_logs": {"queue": "default"},
    "scheduler.tasks.fold_counts": {"queue": "recording"},
    "scheduler.tasks.roll_up_usage": {"queue": "default"},
    "scheduler.tasks.refresh_etas": {"queue": "eta"},
    "scheduler.tasks.train_run_times": {"queue": "eta"},
    "scheduler.tasks.score_etas": {"queue": "default"},
    "scheduler.tasks.keep_frames": {"queue": "default"},
    "scheduler.tasks.let_go": {"queue": "default"},
    "portal.tasks.preview_quota": {"queue": "previews"},
}
app.autodiscover_tasks(["scheduler", "nodes", "quotas", "portal"])
