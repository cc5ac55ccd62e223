"""GPU-hours as CSV, the same for the page and the REST interface."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from scheduler.selectors.usage import By, Used


def to_csv(rows: Iterable[Used], by: Sequence[By]) -> str:
    """One line a sum under a line of names; times in UTC, ISO 8601."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([*(one.value for one in by), "gpu_hours", "jobs"])
    for row in rows:
        writer.writerow([*(_cell(row, one) for one in by), f"{row.gpu_hours:.4f}", row.jobs])
    return text.getvalue()


def _cell(row: Used, by: By) -> str:
    if by in (By.DAY, By.WEEK):
        return row.start.date().isoformat() if row.start is not None else ""
    value = {By.TEAM: row.team, By.USER: row.user, By.GPU_TYPE: row.gpu_type}[by] or ""
    # A spreadsheet takes what begins so for a formula.
    return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
