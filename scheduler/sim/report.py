"""A simulation's report: as a table for a person, as JSON for a program."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from scheduler.sim.metrics import Report, Waits


def as_json(report: Report) -> dict[str, Any]:
    """Every figure of the report under its own name; waits in seconds, shares from 0 to 1."""
    return asdict(report)


def show(report: Report, console: Console, title: str) -> None:
    """Print the report."""
    console.print(f"[bold]{title}[/bold]: {report.length_s / 86_400:.1f} days")
    console.print(_jobs(report))
    console.print(_utilisation(report))
    console.print(_waits(report))


def _jobs(report: Report) -> str:
    one_rack = "-" if report.one_rack is None else f"{report.one_rack:.1%} of {report.multi_host:,}"
    longest = report.waits_with_waiting["all"].longest
    return (
        f"jobs {report.submitted:,}, rejected {report.rejected:,}, started {report.started:,}, "
        f"succeeded {report.finished:,}\n"
        f"multi-host placements in one rack {one_rack}; stops {report.stops:,}\n"
        f"GPU hours used {report.used_gpu_hours:,.0f}, lost to stops {report.lost_gpu_hours:,.1f}; "
        f"longest wait {_hours(longest)}"
    )


def _utilisation(report: Report) -> Table:
    table = Table(title="share of GPU time held", title_justify="left")
    for column in ("", "whole time", "from day 4 on"):
        table.add_column(column, justify="right" if column else "left")
    for kind, share in report.utilisation.items():
        late = report.late_utilisation.get(kind)
        table.add_row(kind, f"{share:.3f}", "-" if late is None else f"{late:.3f}")
    return table


def _waits(report: Report) -> Table:
    table = Table(title="waits, of jobs that started, and with those still waiting", title_justify="left")
    for column in ("GPUs", "jobs", "mean", "p50", "p90", "p99", "longest"):
        table.add_column(column, justify="right" if column != "GPUs" else "left")
    for name, waits in report.waits.items():
        table.add_row(name, *_row(waits))
        table.add_row("  and waiting", *_row(report.waits_with_waiting[name]), style="dim")
    return table


def _row(waits: Waits) -> list[str]:
    figures = (waits.mean, waits.p50, waits.p90, waits.p99, waits.longest)
    return [f"{waits.count:,}", *(_hours(figure) for figure in figures)]


def _hours(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / 3600:.2f} h"
