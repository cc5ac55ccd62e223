"""Everything that pages and the REST interface read: history from PostgreSQL, the present from the picture."""

from scheduler.selectors.cluster import (
    ClusterSummary,
    NodeDetail,
    NodeRow,
    cluster,
    cluster_map,
    hindrances,
    holds,
    map_delta,
    node,
    nodes,
)
from scheduler.selectors.host_health import GpuFaultSeen, HealthChange, gpu_faults, health_changes, telemetry
from scheduler.selectors.job_counts import Counts, counts, state_counts
from scheduler.selectors.jobs import JobFilter, job_events, jobs, jobs_named, node_events, page, visible_jobs
from scheduler.selectors.live import LiveJob, live_job
from scheduler.selectors.queue import Queue, QueueRow, queue, queue_position
from scheduler.selectors.waits import Demand, InTheWay, demand, in_the_way
from scheduler.selectors.why import Why, why

__all__ = [
    "ClusterSummary",
    "Counts",
    "Demand",
    "GpuFaultSeen",
    "HealthChange",
    "InTheWay",
    "JobFilter",
    "LiveJob",
    "NodeDetail",
    "NodeRow",
    "Queue",
    "QueueRow",
    "Why",
    "cluster",
    "cluster_map",
    "counts",
    "demand",
    "gpu_faults",
    "health_changes",
    "hindrances",
    "holds",
    "in_the_way",
    "job_events",
    "jobs",
    "jobs_named",
    "live_job",
    "map_delta",
    "node",
    "node_events",
    "nodes",
    "page",
    "queue",
    "queue_position",
    "state_counts",
    "telemetry",
    "visible_jobs",
    "why",
]
