"""The quota tree as the checker keeps it: who uses how much, from the log alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str, ...]


class CheckedQuota:
    """Use by node and GPU type. A team that the tree does not name is a node of its own, without bounds.

    ``tree`` is nested as in a scenario. GPUs of a stopping attempt stay charged; for floors they do not count as held.
    """

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self._nodes: dict[Path, Mapping[str, Any]] = {}
        self._paths: dict[str, Path] = {}
        self._used: Counter[tuple[Path, str]] = Counter()
        self._stopping: Counter[tuple[Path, str]] = Counter()
        self.replace(tree)

    def replace(self, tree: Mapping[str, Any]) -> None:
        """Put another tree in place; what its nodes use stays."""
        self._nodes = dict(_walk(tree, ()))
        self._paths = {}

    def _upwards(self, team: str) -> Iterator[Path]:
        path = self._path(team)
        for length in range(len(path), 0, -1):
            yield path[:length]

    def _path(self, team: str) -> Path:
        """The node that a name, or a path ``a/b``, means."""
        known = self._paths.get(team)
        if known is None:
            written = tuple(team.split("/"))
            matches = [path for path in self._nodes if path[-len(written) :] == written]
            known = self._paths[team] = matches[0] if len(matches) == 1 else written
        return known

    def charge(self, team: str, gpu_type: str, gpus: int) -> Iterator[str]:
        for path in self._upwards(team):
            self._used[path, gpu_type] += gpus
            ceiling = (self._nodes.get(path, {}).get("ceiling") or {}).get(gpu_type)
            if ceiling is not None and self._used[path, gpu_type] > ceiling:
                yield f"{'/'.join(path)} uses {self._used[path, gpu_type]} {gpu_type}, its ceiling is {ceiling}"

    def stopping(self, team: str, gpu_type: str, gpus: int) -> None:
        for path in self._upwards(team):
            self._stopping[path, gpu_type] += gpus

    def discharge(self, team: str, gpu_type: str, gpus: int, was_stopping: bool) -> None:
        for path in self._upwards(team):
            self._used[path, gpu_type] -= gpus
            if was_stopping:
                self._stopping[path, gpu_type] -= gpus

    def below_floor(self, victim: str, evictor: str, gpu_type: str) -> Iterator[str]:
        """The victim's nodes that a stop has taken below their floor, except those that the evictor belongs to."""
        spared = set(self._upwards(evictor))
        for path in self._upwards(victim):
            floor = (self._nodes.get(path, {}).get("floor") or {}).get(gpu_type, 0)
            held = self._used[path, gpu_type] - self._stopping[path, gpu_type]
            if path not in spared and held < floor:
                yield f"{'/'.join(path)} keeps {held} {gpu_type}, its floor is {floor}"


def _walk(tree: Mapping[str, Any], above: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for name, node in tree.items():
        yield (*above, name), node
        yield from _walk(node.get("children") or {}, (*above, name))
