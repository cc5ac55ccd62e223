"""What each node of the quota tree may call its own of one GPU type: its floor, and its share of what is wanted.

Among the children of a node that has ``t`` to give, child ``c`` with weight ``w``, floor ``f`` and wish ``d`` (what it
holds and what it waits for, at most its ceiling) gets ``min(d, max(min(f, d), w * level))``, with the one level at
which that adds up to ``t``, or its whole wish where all wishes fit. A node's floor is at least those of its children
together. Floors that do not fit are kept: they protect their owner. Exact: Fractions.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import lcm

from scheduler.core.quota import Branch


def entitlements(root: Branch, gpu_type: str, total: int, wanted: Mapping[Branch, int]) -> dict[Branch, Fraction]:
    """By branch, in GPUs. ``wanted`` maps each leaf to what it holds and waits for; ``total`` is the usable fleet."""
    wishes: dict[Branch, int] = {}
    floors: dict[Branch, int] = {}
    _wish(root, gpu_type, wanted, wishes)
    _guarantee(root, gpu_type, wishes, floors)
    own: dict[Branch, Fraction] = {root: Fraction(min(total, wishes[root]))}
    _divide(root, wishes, floors, own)
    return own


def _wish(branch: Branch, gpu_type: str, wanted: Mapping[Branch, int], wishes: dict[Branch, int]) -> int:
    wish = wanted.get(branch, 0) + sum(_wish(child, gpu_type, wanted, wishes) for child in branch.children)
    ceiling = branch.node.ceiling.get(gpu_type)
    if ceiling is not None:
        wish = min(wish, ceiling)
    wishes[branch] = wish
    return wish


def _guarantee(branch: Branch, gpu_type: str, wishes: dict[Branch, int], floors: dict[Branch, int]) -> int:
    """What the branch, or those below it together, are guaranteed of what they want."""
    inner = sum(_guarantee(child, gpu_type, wishes, floors) for child in branch.children)
    floors[branch] = min(max(branch.node.floor.get(gpu_type, 0), inner), wishes[branch])
    return floors[branch]


def _divide(branch: Branch, wishes: dict[Branch, int], floors: dict[Branch, int], own: dict[Branch, Fraction]) -> None:
    children = branch.children
    if not children:
        return
    claims = [(child.node.share, floors[child], wishes[child]) for child in children]
    for child, part in zip(children, divide(own[branch], claims), strict=True):
        own[child] = part
        _divide(child, wishes, floors, own)


def divide(total: Fraction, claims: list[tuple[Fraction, int, int]]) -> list[Fraction]:
    """Divide ``total`` among claims of (weight, floor, wish), floor at most wish. See the module's formula."""
    if sum(wish for _, _, wish in claims) <= total:
        return [Fraction(wish) for _, _, wish in claims]
    level = _level(total, claims)
    return [_at_level(level, claim) for claim in claims]


def _at_level(level: Fraction, claim: tuple[Fraction, int, int]) -> Fraction:
    weight, floor, wish = claim
    if weight <= 0 or not level:
        return Fraction(floor)
    part = weight * level
    return Fraction(floor) if part <= floor else Fraction(wish) if part >= wish else part


def _level(total: Fraction, claims: list[tuple[Fraction, int, int]]) -> Fraction:
    """The level at which the parts add up to ``total``; 0 where the floors alone use it up.

    In whole numbers: a level is counted in steps of one over ``common``, so that each claim's bounds lie on a step, and
    parts are counted in as many pieces.
    """
    weights = lcm(*(weight.denominator for weight, _, _ in claims))
    whole = [(weight.numerator * (weights // weight.denominator), floor, wish) for weight, floor, wish in claims]
    common = lcm(*(weight for weight, _, _ in whole if weight > 0))
    turns = []
    for weight, floor, wish in whole:
        if weight > 0:
            turns += [(floor * (common // weight), weight), (wish * (common // weight), -weight)]
    wanted, pieces = total.numerator * common, total.denominator
    used, slope, level = sum(floor for _, floor, _ in claims) * common, 0, 0
    for turn, change in sorted(turns):
        if (used + slope * (turn - level)) * pieces >= wanted:
            break
        used += slope * (turn - level)
        level = turn
        slope += change
    beyond = wanted - used * pieces
    steps = Fraction(beyond, slope * pieces) + level if slope > 0 and beyond > 0 else Fraction(level)
    return steps * weights / common
