"""Everything that has to be in the databases before web starts: called by `up`, any number of times."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import transaction
from django.utils import timezone

from nodes.services import create_join_token
from portal.demo.people import ensure_people, ensure_robots
from portal.demo.tree import tree
from portal.supervisor import secrets
from portal.supervisor.config import FLEETS
from quotas.services import seed
from scheduler.intents import publish_quota

GPU_MIX = {"H100": 70, "A100": 20, "L40S": 10}
"""Percent of the fleet's hosts, as the simulated fleet has them."""
FIRST_TREE_HOSTS = 64
"""Floors are made for so many hosts where there is no simulated fleet."""


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
        hosts = FLEETS[options["fleet"]] or FIRST_TREE_HOSTS
        with transaction.atomic():
            publish_quota(
                seed(tree({kind: hosts * 8 * share // 100 for kind, share in GPU_MIX.items()}), timezone.now())
            )
            ensure_people(data / "demo.json", settings.CSRF_TRUSTED_ORIGINS[0])
            ensure_robots(data / "workload.json")
            uses = FLEETS[options["fleet"]]
            if uses:
                create_join_token(secrets.keep(data / "join-token"), uses, timezone.now() + timedelta(hours=1))
