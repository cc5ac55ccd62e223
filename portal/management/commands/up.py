"""The whole system on this machine: `make run` calls this."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand

from portal.supervisor.console import Console
from portal.supervisor.up import main


class Command(BaseCommand):
    help = (
        "Start stores, web, workers, a simulated fleet and a workload on loopback, and keep them running until Ctrl-C. "
        "GANGWAY_PORT, GANGWAY_DATA, GANGWAY_FLEET=small|full|off, GANGWAY_WORKLOAD=on|off and a URL for each store "
        "(GANGWAY_POSTGRES_URL, GANGWAY_ETCD_URL, GANGWAY_REDIS_URL, GANGWAY_S3_URL) change what is started."
    )
    # The supervisor itself uses no database; what needs one runs as a program of its own.
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(main(os.environ, Console()))
