"""How a benchmark shows its figures: a table beside their bounds, and the same as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """``most`` is the bound that the value must not exceed, None for one that only informs."""

    name: str
    value: float
    unit: str
    most: float | None = None

    @property
    def holds(self) -> bool:
        return self.most is None or self.value <= self.most


def show(title: str, figures: list[Figure], file: Path | None = None) -> None:
    """Print the table and one line of JSON; the JSON goes to ``file`` too, if there is one."""
    table = Table(title=title)
    table.add_column("figure", no_wrap=True)
    for heading in ("measured", "bound", ""):
        table.add_column(heading, justify="right")
    for figure in figures:
        bound = "" if figure.most is None else f"≤ {figure.most:g} {figure.unit}"
        verdict = "" if figure.most is None else "[green]holds[/]" if figure.holds else "[red]broken[/]"
        table.add_row(figure.name, f"{figure.value:,.1f} {figure.unit}".rstrip(), bound, verdict)
    Console().print(table)
    told = [
        {
            "name": figure.name,
            "value": round(figure.value, 3) if isfinite(figure.value) else None,
            "unit": figure.unit,
            "most": figure.most,
        }
        for figure in figures
    ]
    line = json.dumps({"benchmark": title, "figures": told})
    print(line)
    if file is not None:
        file.write_text(line + "\n")


def quantile(ascending: list[float], share: float) -> float:
    """The smallest value that so large a share of all is not above; infinite without values."""
    if not ascending:
        return float("inf")
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]
