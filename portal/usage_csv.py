"""GPU-hours as CSV, the same for the page and the REST interface."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from scheduler.selectors.usage import By


class Sum(Protocol):
    """What is known of one sum, wherever it is asked for: see ``scheduler.selectors.usage.Used``."""

    @property
    def team(self) -> str | None: ...
    @property
    def user(self) -> str | None: ...
    @property
    def gpu_type(self) -> str | None: ...
    @property
    def node(self) -> str | None: ...
    @property
    def start(self) -> datetime | None: ...
    @property
    def gpu_hours(self) -> float: ...
    @property
    def floor_hours(self) -> float: ...
    @property
    def burst_hours(self) -> float: ...
    @property
    def lost_hours(self) -> float: ...
    @property
    def jobs(self) -> int: ...
    @property
    def cost(self) -> Decimal | str | None: ...


FIGURES = ("gpu_hours", "floor_hours", "burst_hours", "lost_hours", "jobs", "cost")


def to_csv(rows: Iterable[Sum], by: Sequence[By]) -> str:
    """One line a sum under a line of names; times in UTC, ISO 8601."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([*(one.value for one in by), *FIGURES])
    for row in rows:
        writer.writerow([*(_cell(row, one) for one in by), *_figures(row)])
    return text.getvalue()


def _figures(row: Sum) -> Iterable[object]:
    hours = (row.gpu_hours, row.floor_hours, row.burst_hours, row.lost_hours)
    return (*(f"{figure:.4f}" for figure in hours), row.jobs, "" if row.cost is None else row.cost)


def _cell(row: Sum, by: By) -> str:
    if by in (By.DAY, By.WEEK):
        return row.start.date().isoformat() if row.start is not None else ""
    value = {By.TEAM: row.team, By.USER: row.user, By.GPU_TYPE: row.gpu_type, By.NODE: row.node}[by] or ""
    # A spreadsheet takes what begins so for a formula.
    return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
