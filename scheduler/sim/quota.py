"""The quota tree as a scenario writes it: nested, edited by laying a partial tree over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from scheduler.core.types import QuotaNode, QuotaTree
from scheduler.sim.reading import Bad, Fields, duration, flag, fraction, gpus_by_type, one_of

Path = tuple[str, ...]

_READ: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "share": ("share", fraction),
    "floor": ("floor", gpus_by_type),
    "ceiling": ("ceiling", gpus_by_type),
    "min_runtime": ("min_runtime_ms", duration),
    "p0": ("p0", flag),
    "reclaim": ("reclaim", one_of(("share", "floor"))),
}
"""Key of the format, field of ``QuotaNode``, reader."""


@dataclass(frozen=True)
class Branch:
    """One node: the fields of ``QuotaNode`` that were named (all others keep their value or default), its children."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    children: Mapping[str, Branch] = field(default_factory=dict)


def read_branches(fields: Fields) -> dict[str, Branch]:
    """The children of a node, or the whole tree.

    Raises:
        NotAScenario: a key or value is unknown.
    """
    return {name: _read_branch(fields.nested(name)) for name in fields.keys()}  # noqa: SIM118 (keys() is a copy)


def _read_branch(fields: Fields) -> Branch:
    named = {name: fields.take(key, read) for key, (name, read) in _READ.items() if key in fields}
    children = read_branches(fields.nested("children")) if "children" in fields else {}
    fields.done()
    return Branch(named, children)


def lay_over(below: Mapping[str, Branch], above: Mapping[str, Branch]) -> dict[str, Branch]:
    """The tree ``below`` with the fields that ``above`` names changed; GPUs of types not named stay."""
    merged = dict(below)
    for name, edit in above.items():
        present = below.get(name, Branch())
        merged[name] = Branch(_merged_fields(present.fields, edit.fields), lay_over(present.children, edit.children))
    return merged


def _merged_fields(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**below, **above}
    for name in ("floor", "ceiling"):
        if above.get(name):
            merged[name] = {**below.get(name, {}), **above[name]}
    return merged


def walk(branches: Mapping[str, Branch], above: Path = ()) -> Iterator[tuple[Path, Branch]]:
    """Every node with its path, parents before their children."""
    for name, branch in branches.items():
        path = (*above, name)
        yield path, branch
        yield from walk(branch.children, path)


@dataclass(frozen=True)
class Names:
    """What a node is called in the records: its name where that is the only one in the file, else its whole path."""

    of: Mapping[Path, str] = field(default_factory=dict)

    @staticmethod
    def over(paths: set[Path]) -> Names:
        last = [path[-1] for path in paths]
        return Names({path: path[-1] if last.count(path[-1]) == 1 else "/".join(path) for path in paths})

    def find(self, written: str) -> str:
        """The name in the records of the node that a scenario calls ``written``: a name, or a path ``a/b``.

        Raises:
            Bad: there is no such node, or several.
        """
        path = tuple(written.split("/"))
        found = [name for known, name in self.of.items() if known[-len(path) :] == path]
        if not found:
            raise Bad(f"no node of the quota tree is called {written!r}")
        if len(found) > 1:
            raise Bad(f"{written!r} is several nodes of the quota tree: name one by its path")
        return found[0]


def tree(branches: Mapping[str, Branch], names: Names, version: int, open_to_all: bool = False) -> QuotaTree:
    """The records of the tree. ``open_to_all``: teams that it does not name exist as well."""
    nodes = []
    for path, branch in walk(branches):
        parent = names.of[path[:-1]] if len(path) > 1 else None
        nodes.append(replace(QuotaNode(names.of[path], parent), **branch.fields))
    return QuotaTree(tuple(nodes), version, open_to_all)


def written(branches: Mapping[str, Branch]) -> dict[str, Any]:
    """The tree as a scenario writes it, for the decision log."""
    return {name: _written_branch(branch) for name, branch in branches.items()}


def _written_branch(branch: Branch) -> dict[str, Any]:
    answer = {key: _written(key, branch.fields[name]) for key, (name, _) in _READ.items() if name in branch.fields}
    if branch.children:
        answer["children"] = written(branch.children)
    return answer


def _written(key: str, value: Any) -> Any:
    if key == "min_runtime":
        return f"{Fraction(value, 1000)}s" if value % 1000 == 0 else f"{value / 1000}s"
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value
