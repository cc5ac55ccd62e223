"""Short words for codes, where a list has room for no more. A job's own page explains with numbers."""

from __future__ import annotations

from scheduler.core.types import Reason

REASON_WORDS: dict[str, str] = {
    Reason.NEVER_FITS: "can never fit",
    Reason.QUOTA_CEILING: "its team is at its ceiling",
    Reason.NOT_ENOUGH_FREE_GPUS: "not enough free GPUs",
    Reason.FRAGMENTED: "free GPUs are too scattered",
    Reason.TOPOLOGY: "waits for one rack or host",
    Reason.NOT_ENOUGH_CPU_OR_MEMORY: "not enough CPU, memory or scratch",
    Reason.HELD_FOR_LARGER_JOB: "room is kept for a larger job",
    Reason.BEHIND_IN_QUEUE: "others are before it",
    Reason.WAITING_FOR_PREEMPTION: "its place is being cleared",
    Reason.DEPENDENCY: "waits for another job",
    Reason.BACKOFF: "pauses before it tries again",
    Reason.MAINTENANCE: "maintenance is near",
    Reason.RESERVED: "hosts are reserved",
    Reason.SPOT_NOT_ALLOWED: "only spot hosts are free",
    Reason.HELD_BY_USER: "held by a person",
    Reason.SCHEDULER_DEGRADED: "the scheduler is not well",
}
NOT_LOOKED_AT = "not looked at yet"


def reason_words(code: str | None) -> str:
    return REASON_WORDS.get(code, code) if code else NOT_LOOKED_AT


def duration_words(span_ms: int) -> str:
    """A span of time, rounded down: ``4 min 12 s``, ``3 h 05 min``, ``6 d 4 h``."""
    seconds = span_ms // 1000
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60:02} min"
    if minutes:
        return f"{minutes} min {seconds % 60:02} s"
    return f"{seconds} s"


def gpu_hours_words(gpu_ms: int) -> str:
    """GPU time as people say it: ``120 GPU-hours``, ``12.8 GPU-hours``, ``0.043 GPU-hours``."""
    hours = gpu_ms / 3_600_000
    return (
        f"{hours:,.0f} GPU-hours"
        if hours >= 100
        else f"{hours:.1f} GPU-hours"
        if hours >= 1
        else f"{hours:.2g} GPU-hours"
    )
