"""Why a team holds what it holds, in sentences with the numbers. Pure."""

from __future__ import annotations

from scheduler.core.balance import Line
from scheduler.selectors.shares import TypeShares


def path(shares: TypeShares, team: str) -> list[Line]:
    """The team's line and those above it, the root's child first."""
    found: list[Line] = []
    line = shares.line(team)
    while line is not None:
        found.append(line)
        line = shares.line(line.parent) if line.parent is not None else None
    return found[::-1]


def borrowers(shares: TypeShares, team: str) -> list[Line]:
    """The teams that hold more than their own of the type, most first: what the team waits for comes from them."""
    return sorted(
        (line for line in shares.lines if line.team and line.borrowed and line.node != team),
        key=lambda line: (-line.borrowed, line.node),
    )


def why(shares: TypeShares, team: str) -> list[str]:
    """What the team is owed and why, and what becomes of what it lacks."""
    levels = path(shares, team)
    if not levels:
        return [f"{team} is not in the tree that the planner goes by."]
    mine = levels[-1]
    return [_derived(shares, levels), _standing(mine), *_short(shares, mine, levels)]


def _derived(shares: TypeShares, levels: list[Line]) -> str:
    steps = [f"{line.node} {percent(line)} of {line.parent or 'the cluster'}" for line in levels]
    own = f"{shares.usable} {shares.gpu_type} GPUs are in service. By shares, {' and '.join(steps)}: "
    mine = levels[-1]
    told = f"that assures {mine.node} {mine.assured} whoever else wants them"
    return own + told + (f", {mine.floor} of them by its floor." if mine.floor else ".")


def _standing(line: Line) -> str:
    if line.borrowed:
        return (
            f"It holds {line.held}, {line.borrowed} more than its own now, which is {line.own}: "
            "others may take those back, with a checkpoint first."
        )
    if line.held + line.waiting <= line.assured:
        waits = f" and waits for {line.waiting}" if line.waiting else ""
        return f"It holds {line.held}{waits}: all that it wants is its own."
    return f"It holds {line.held} and waits for {line.waiting}; its own now is {line.own}, as others want theirs."


def _short(shares: TypeShares, line: Line, levels: list[Line]) -> list[str]:
    if not line.waiting:
        return []
    full = next((one for one in levels if one.ceiling is not None and one.held + 1 > one.ceiling), None)
    if full is not None:
        return [f"{full.node} is at its ceiling, {full.ceiling}: nothing of it starts until something of it ends."]
    if not line.owed:
        return ["What it waits for is beyond its own: it starts when GPUs are free that nobody else is owed."]
    lenders = borrowers(shares, line.node)
    if lenders:
        named = ", ".join(f"{one.node} ({one.borrowed})" for one in lenders[:3])
        return [f"It is owed {line.owed}. Who holds more than their own: {named}. They are taken back from there."]
    return [f"It is owed {line.owed}, and nobody holds more than their own: it starts as jobs end."]


def percent(line: Line) -> str:
    """A node's part among its siblings: ``40 %``, ``12.5 %``."""
    return f"{float(round(line.part * 100, 1)):g} %"
