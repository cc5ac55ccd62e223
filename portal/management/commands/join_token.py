"""A token by which the agents of new hosts join: `manage.py join_token --uses 40 --hours 24`."""

from __future__ import annotations

import secrets
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from nodes.services import create_join_token

TOKEN_BYTES = 32


class Command(BaseCommand):
    help = "Make a join token for agents and print it. Only its hash is kept: it cannot be shown again."

    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--uses", type=int, default=1, help="how many hosts may join with it; default: 1")
        parser.add_argument("--hours", type=float, default=24.0, help="for how long it is good; default: 24")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["uses"] < 1 or not 0 < options["hours"] <= 24 * 90:
            raise CommandError("give at least one use, and up to 2160 hours")
        token = secrets.token_urlsafe(TOKEN_BYTES)
        create_join_token(token, options["uses"], timezone.now() + timedelta(hours=options["hours"]))
        self.stdout.write(token)
