"""The Celery application: workers and beat of the control plane.

    celery -A portal worker -Q scheduler --pool solo            any number, on any hosts; one of them leads
    celery -A portal worker -Q recording,default --pool threads
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

app = Celery("gangway")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.task_queues = (Broadcast("scheduler"), Queue("recording"), Queue("default"))
app.autodiscover_tasks(["scheduler", "nodes", "quotas"])
