"""Everything that has to be in the databases before web starts: called by `up`, any number of times."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import transaction
from django.utils import timezone

from nodes.agent.hosts import hosts
from nodes.services import create_join_token
from portal.demo.people import ensure_people, ensure_robots
from portal.demo.tree import tree
from portal.supervisor import secrets
from portal.supervisor.config import FLEETS
from quotas.services import seed
from scheduler.intents import publish_quota

FLOORS_WITHOUT_A_FLEET = "small"
"""For which fleet the first tree's floors are made where hosts will register by themselves."""


class Command(BaseCommand):
    help = (
        "Migrate, collect static files, and make the demo's quota tree, people and join token where they are missing."
    )

    # They load every page and endpoint; web does that a moment later.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--fleet", choices=sorted(FLEETS), default="small", help="for which fleet the floors are made"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        data = Path(os.environ["GANGWAY_DATA"])
        call_command("migrate", interactive=False, verbosity=0)
        call_command("collectstatic", interactive=False, verbosity=0)
        fleet = options["fleet"]
        with transaction.atomic():
            publish_quota(seed(tree(_gpus(fleet)), timezone.now()))
            ensure_people(data / "demo.json", settings.CSRF_TRUSTED_ORIGINS[0])
            ensure_robots(data / "workload.json")
            if FLEETS[fleet]:
                create_join_token(secrets.keep(data / "join-token"), FLEETS[fleet], timezone.now() + timedelta(hours=1))


def _gpus(fleet: str) -> dict[str, int]:
    """The simulated fleet's GPUs by type."""
    counts: Counter[str] = Counter()
    for host in hosts(fleet if FLEETS[fleet] else FLOORS_WITHOUT_A_FLEET):
        counts[host.gpu_type] += host.gpus
    return dict(counts)
