"""What a person sees of `manage.py up`: progress while it starts, then where it is and who may sign in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console as Rich
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from portal.supervisor.config import Config

ROLES = {
    "researcher": "submits jobs, asks why they wait",
    "team_admin": "runs the teams of an organisation",
    "oncall": "cordons and drains hosts on the map",
    "admin": "may do everything",
}


class Console:
    """Progress and results go to standard output, refusals to standard error, one line each."""

    def __init__(self, out: Rich | None = None, err: Rich | None = None) -> None:
        self.out = out or Rich(highlight=False, soft_wrap=True)
        self.err = err or Rich(stderr=True, highlight=False, soft_wrap=True)
        self._progress: Progress | None = None

    @contextmanager
    def starting(self) -> Iterator[None]:
        columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), BarColumn(bar_width=24))
        with Progress(*columns, MofNCompleteColumn(), TimeElapsedColumn(), console=self.out) as progress:
            self._progress = progress
            try:
                yield
                self._finish_last()
            finally:
                self._progress = None

    def step(self, text: str, total: int = 1) -> None:
        """The step before is done; this one goes on from here."""
        if self._progress is not None:
            self._finish_last()
            self._progress.add_task(text, total=total)

    def advance(self, done: int) -> None:
        if self._progress is not None and self._progress.tasks:
            self._progress.update(self._progress.tasks[-1].id, completed=done)

    def tell(self, text: str) -> None:
        self.out.print(f"[dim]·[/] {text}", markup=True)

    def refuse(self, text: str) -> None:
        self.err.print(f"gangway: {' '.join(text.split())}", markup=False)

    def stopping(self) -> None:
        self.out.print("\nStopping …")

    def stopped(self, config: Config) -> None:
        self.out.print(f"Stopped. The data is kept in {config.data}; the next start goes on from there.")

    def summary(self, config: Config, people: dict[str, Any] | None, nodes: int) -> None:
        self.out.print(f"\n[bold]Gangway[/] runs at [bold]{config.address}[/]  ({nodes} hosts)\n")
        if people:
            self.out.print(_logins(people))
        self.out.print(
            f"""
Look at   {config.address}/cluster/   the live map: every host, every GPU
          {config.address}/queue/     who waits, in which order, and why
          {config.address}/submit/    submit a job; examples/job.json is one
          {config.address}/api/v1/docs/

Logs are in {config.logs}, tokens for the API in {config.data / "demo.json"}. Ctrl-C stops everything.
"""
        )

    def _finish_last(self) -> None:
        if self._progress is not None and self._progress.tasks:
            task = self._progress.tasks[-1]
            self._progress.update(task.id, completed=task.total)


def _logins(people: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("Name", "Password", "Role", ""):
        table.add_column(title, no_wrap=True)
    for person in people["users"]:
        table.add_row(person["name"], person["password"], person["role"], ROLES.get(person["role"], ""))
    return table
