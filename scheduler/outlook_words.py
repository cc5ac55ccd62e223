"""An outlook in words: one way each for the REST interface and the pages. Pure."""

from __future__ import annotations

from typing import Any

from scheduler.core.alternatives import Alternative
from scheduler.core.links import ACROSS_RACKS, IN_HOST, IN_HOST_PCIE, IN_RACK, NO_LINK
from scheduler.core.preview import Outlook, Place, Verdict
from scheduler.core.rights import Band, Exposure, Risk, Standing
from scheduler.core.types import Hint
from scheduler.requests import HOUR_MS

LINKS = {
    NO_LINK: "one rank, nothing to exchange",
    IN_HOST: "NVLink, 600 GB/s",
    IN_HOST_PCIE: "PCIe, 32 GB/s",
    IN_RACK: "InfiniBand in one rack, 200 Gb/s",
    ACROSS_RACKS: "Ethernet between racks, 40 Gb/s",
}
HINTS = {
    Hint.ANY: "Anywhere in one zone",
    Hint.PREFER_SAME_HOST: "Any hosts",
    Hint.PREFER_SAME_RACK: "Any rack",
    Hint.REQUIRE_SAME_HOST: "One host",
    Hint.REQUIRE_SAME_RACK: "One rack",
}
BODY_FIELDS = {
    "gpus": "resources.gpu_count",
    "gpu_type": "resources.gpu_type",
    "hint": "topology_hint",
    "max_runtime_ms": "max_runtime_hours",
    "priority": "priority",
}
"""Field of ``JobSpec`` that an alternative changes → its place in the body of ``POST jobs``."""


def span(ms: int) -> str:
    """A span of time, rounded up to what one needs to know: ``45 s``, ``20 min``, ``3 h 5 min``, ``2 d 4 h``."""
    if ms < 90_000:
        return f"{-(-ms // 1000)} s"
    minutes = -(-ms // 60_000)
    hours, days = minutes // 60, minutes // 1440
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


def gpus(count: int, gpu_type: str = "") -> str:
    return f"{count} {gpu_type} GPU{'' if count == 1 else 's'}".replace("  ", " ")


def where(place: Place) -> str:
    """``8 hosts of rack r3 in az1``, ``9 hosts over 3 racks in az1``."""
    hosts = f"{len(place.hosts)} host{'' if len(place.hosts) == 1 else 's'}"
    if len(place.racks) == 1:
        return f"{hosts} of rack {place.racks[0][0]} in {place.az}"
    return f"{hosts} over {len(place.racks)} racks in {place.az}"


def slower(place: Place) -> str:
    """``about 3.0× slower than in the tightest place``; empty where it sits as tight as can be."""
    slowdown = place.speed.slowdown
    return f"about {slowdown:.1f}× slower than where it would sit tightest" if slowdown > 1.05 else ""


def headline(outlook: Outlook, now_ms: int) -> str:
    if outlook.verdict is Verdict.REFUSED:
        return "It could never run"
    if outlook.verdict is Verdict.STARTS:
        return "It starts now"
    if outlook.victims:
        return f"It starts within {span((outlook.start_ms or now_ms) - now_ms)}, in the place of others"
    if outlook.start_ms is not None:
        return f"It waits, {span(outlook.start_ms - now_ms)} at the latest"
    return "It waits, and nothing is promised yet"


def band(standing: Standing) -> str:
    inside = [level.name for level in standing.levels if level.with_job <= level.floor]
    if standing.band is Band.FLOOR:
        return "Floor: guaranteed at every level, nobody can reclaim it."
    if standing.band is Band.PARTLY:
        return f"Inside the floor of {', '.join(inside)}; beyond that it is burst."
    return "Burst: beyond what is guaranteed."


def risk(exposure: Exposure) -> str:
    """How likely the job is to lose its place, in one sentence with what that rests on."""
    if exposure.risk is Risk.HIGH:
        team, owed = exposure.owed[0]
        more = f" and {len(exposure.owed) - 1} more" if len(exposure.owed) > 1 else ""
        return (
            f"Likely to be reclaimed: {exposure.over} would be {gpus(exposure.beyond)} beyond its share, while "
            f"{team}{more} wait{'' if more else 's'} and {'are' if more else 'is'} owed {gpus(owed)}"
            f"{' or more' if more else ''}."
        )
    if exposure.risk is Risk.MEDIUM:
        return "May be reclaimed later: it uses what others leave idle and are entitled to if they ask for it."
    return "Unlikely to be reclaimed: it stays within what its team is owed even if everybody asks for everything."


def by_class(exposure: Exposure, team: str) -> str:
    """Which priorities may take its place."""
    if not exposure.classes:
        return "No class of jobs may take its place."
    own = [f"P{priority}" for priority in exposure.classes if priority]
    words = "P0 jobs of any team"
    if own:
        words += f", and {' and '.join(own)} jobs of {team},"
    return f"{words} may take its place."


def if_stopped(exposure: Exposure) -> str:
    kept = (
        "it goes on from its checkpoint" if exposure.saves else "it has no checkpoint, so it starts from the beginning"
    )
    if exposure.protected_ms:
        return f"Reclaimed not before it has run {span(exposure.protected_ms)}; then {kept}."
    return f"If it is stopped, {kept}."


def change(one: Alternative) -> tuple[str, Any]:
    """Where in the body of ``POST jobs`` the alternative differs, and the value there."""
    value: Any = getattr(one.spec, one.kind)
    if one.kind == "max_runtime_ms":
        value = round(value / HOUR_MS, 4)
        value = int(value) if value == int(value) else value
    elif one.kind == "priority":
        value = f"P{value}"
    elif one.kind == "hint":
        value = value.value
    return BODY_FIELDS[one.kind], value


def alternative(one: Alternative, now_ms: int) -> str:
    """``48 GPUs: now``, ``Any rack: now, about 3.0× slower …``, ``P1: in 2 min, stops 1 job on 64 GPUs``."""
    outlook, spec = one.outlook, one.spec
    what = {
        "gpus": gpus(spec.gpus),
        "gpu_type": f"On {spec.gpu_type}",
        "hint": HINTS[spec.hint],
        "max_runtime_ms": f"A limit of {span(spec.max_runtime_ms)}",
        "priority": f"As P{spec.priority}",
    }[one.kind]
    start = outlook.start_ms
    words = [_start(outlook, start, now_ms)]
    if outlook.place is not None and slower(outlook.place):
        words.append(slower(outlook.place))
    if outlook.victims:
        stopped = sum(victim.gpus for victim in outlook.victims)
        words.append(f"stops {len(outlook.victims)} job{'' if len(outlook.victims) == 1 else 's'} on {gpus(stopped)}")
    return f"{what}: {', '.join(words)}"


def _start(outlook: Outlook, start_ms: int | None, now_ms: int) -> str:
    if outlook.verdict is Verdict.STARTS:
        return "now"
    if start_ms is None:
        return "possible, after a wait"
    return f"in {span(start_ms - now_ms)} at the latest"


def safety(exposure: Exposure, team: str) -> list[str]:
    """Everything about how safe the job's place would be."""
    return [risk(exposure), by_class(exposure, team), if_stopped(exposure)]
