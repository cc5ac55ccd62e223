"""Every address below ``/api/v1/``. What Django's router never sees (``agent/sync``) is in ``portal.asgi``."""

from __future__ import annotations

from csp import constants as csp
from csp.decorators import csp_update
from django.urls import path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.permissions import AllowAny

from portal.api import (
    agent,
    audit,
    cluster,
    maintenance,
    nodes,
    problems,
    queue,
    quotas,
    repairs,
    reservations,
    tokens,
    usage,
)
from portal.api.jobs import checkpoints, collection, eta, logs, preview, single

_OPEN = {"authentication_classes": [], "permission_classes": [AllowAny]}

# The page's script comes from an address of its own; its styles are written into it.
_docs = csp_update({"style-src": [csp.SELF, csp.UNSAFE_INLINE]})(
    SpectacularSwaggerSplitView.as_view(url_name="api-schema", **_OPEN)
)

urlpatterns = [
    path("jobs", collection.Jobs.as_view(), name="api-jobs"),
    path("jobs/preview", preview.PreviewJob.as_view(), name="api-job-preview"),
    path("jobs/<str:job_id>", single.Job.as_view(), name="api-job"),
    path("jobs/<str:job_id>/events", single.Events.as_view(), name="api-job-events"),
    path("jobs/<str:job_id>/checkpoints", checkpoints.Checkpoints.as_view(), name="api-job-checkpoints"),
    path("jobs/<str:job_id>/logs", logs.Logs.as_view(), name="api-job-logs"),
    path("jobs/<str:job_id>/why", single.Why.as_view(), name="api-job-why"),
    path("jobs/<str:job_id>/eta", eta.Eta.as_view(), name="api-job-eta"),
    path("jobs/<str:job_id>/cancel", single.Cancel.as_view(), name="api-job-cancel"),
    path("jobs/<str:job_id>/hold", single.Hold.as_view(), name="api-job-hold"),
    path("jobs/<str:job_id>/release", single.Release.as_view(), name="api-job-release"),
    path("queue", queue.Queue.as_view(), name="api-queue"),
    path("cluster", cluster.Cluster.as_view(), name="api-cluster"),
    path("cluster/map", cluster.ClusterMap.as_view(), name="api-cluster-map"),
    path("nodes", nodes.Nodes.as_view(), name="api-nodes"),
    path("nodes/<str:name>", nodes.Node.as_view(), name="api-node"),
    path("nodes/<str:name>/health", nodes.Health.as_view(), name="api-node-health"),
    path("nodes/<str:name>/cordon", nodes.Cordon.as_view(), name="api-node-cordon"),
    path("nodes/<str:name>/uncordon", nodes.Uncordon.as_view(), name="api-node-uncordon"),
    path("nodes/<str:name>/drain", nodes.Drain.as_view(), name="api-node-drain"),
    path("nodes/<str:name>/release", nodes.Release.as_view(), name="api-node-release"),
    path("nodes/<str:name>/remove", nodes.Remove.as_view(), name="api-node-remove"),
    path("maintenance", maintenance.Maintenances.as_view(), name="api-maintenance"),
    path("maintenance/<int:window_id>/cancel", maintenance.CancelMaintenance.as_view(), name="api-maintenance-cancel"),
    path("reservations", reservations.Reservations.as_view(), name="api-reservations"),
    path(
        "reservations/<str:reservation_id>/cancel",
        reservations.CancelReservation.as_view(),
        name="api-reservation-cancel",
    ),
    path("repairs", repairs.Repairs.as_view(), name="api-repairs"),
    path("repairs/<str:proposal_id>/accept", repairs.AcceptRepair.as_view(), name="api-repair-accept"),
    path("audit", audit.Audit.as_view(), name="api-audit"),
    path("quotas", quotas.QuotaTree.as_view(), name="api-quotas"),
    path("quotas/preview", quotas.Preview.as_view(), name="api-quota-preview"),
    path("quotas/history", quotas.History.as_view(), name="api-quota-history"),
    path("quotas/edits/<int:edit_id>/cancel", quotas.CancelEdit.as_view(), name="api-quota-edit-cancel"),
    path("usage", usage.UsageView.as_view(), name="api-usage"),
    path("auth/tokens", tokens.Tokens.as_view(), name="api-tokens"),
    path("auth/tokens/<str:token_id>", tokens.OneToken.as_view(), name="api-token"),
    path("agent/register", agent.register, name="api-agent-register"),
    path("schema/", SpectacularAPIView.as_view(**_OPEN), name="api-schema"),
    path("docs/", _docs, name="api-docs"),
    re_path(r"^", problems.unknown_path),
]
