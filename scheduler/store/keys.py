"""The layout of the state store. One kind of writer a key: see docs/design/001-planes-and-seams.md."""

from __future__ import annotations

PREFIX = "/gangway/v1/"

INTENT_JOBS = PREFIX + "intent/jobs/"
INTENT_NODES = PREFIX + "intent/nodes/"
INTENT_RESERVATIONS = PREFIX + "intent/reservations/"
INTENT_QUOTA = PREFIX + "intent/quota"
INTENT_REPAIR = PREFIX + "intent/repair"
INTENT_POLICY = PREFIX + "intent/policy"
REPORT = PREFIX + "report/"
ALIVE = PREFIX + "alive/"
DECISION_JOBS = PREFIX + "decision/jobs/"
DECISION_NODES = PREFIX + "decision/nodes/"
DECISION_RESERVATIONS = PREFIX + "decision/reservations"
DECISION_USAGE = PREFIX + "decision/usage"
LEADER = PREFIX + "leader"
JOURNAL = PREFIX + "journal/"
LEFT_JOBS = PREFIX + "left/jobs/"


def intent_job(job: str) -> str:
    return INTENT_JOBS + job


def intent_node(node: str) -> str:
    return INTENT_NODES + node


def intent_reservation(name: str) -> str:
    return INTENT_RESERVATIONS + name


def report(node: str) -> str:
    return REPORT + node


def alive(node: str) -> str:
    return ALIVE + node


def decision_job(job: str) -> str:
    return DECISION_JOBS + job


def decision_node(node: str) -> str:
    return DECISION_NODES + node


def journal(entry: str) -> str:
    return JOURNAL + entry


def left_job(job: str) -> str:
    return LEFT_JOBS + job
