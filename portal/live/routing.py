"""The addresses of the sockets. ``application`` is what the portal's ASGI front door hands WebSockets to."""

from __future__ import annotations

from channels.routing import URLRouter
from django.urls import re_path

from portal.live.consumers import ClusterConsumer, JobConsumer, QueueConsumer
from portal.live.gate import Gate

application = Gate(
    URLRouter(
        [
            re_path(r"^ws/queue/$", QueueConsumer.as_asgi()),
            re_path(r"^ws/cluster/$", ClusterConsumer.as_asgi()),
            re_path(r"^ws/jobs/(?P<job_id>[0-9A-HJKMNP-TV-Z]{26})/$", JobConsumer.as_asgi()),
        ]
    )
)
