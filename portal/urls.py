"""Every address of the portal. Pages are in portal.views, the REST interface in portal.api."""

from django.urls import URLPattern, URLResolver, include, path

from portal.adminsite.registered import administration
from portal.api.health import healthz, readyz
from portal.api.metrics import metrics
from portal.views import (
    budgets,
    cluster,
    host,
    incidents,
    job,
    job_changes,
    job_output,
    jobs,
    planned,
    quota_edit,
    quotas,
    saved_views,
    starts,
)
from portal.views.audit import audit
from portal.views.bulk import bulk
from portal.views.home import home
from portal.views.operate import operate
from portal.views.outlook import filled, outlook
from portal.views.preferences import preferences
from portal.views.queue import queue
from portal.views.search import search
from portal.views.signin import sign_in, sign_out
from portal.views.submit import submit
from portal.views.usage import usage

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include("portal.api.urls")),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("", home, name="home"),
    path("sign-in/", sign_in, name="sign-in"),
    path("sign-out/", sign_out, name="sign-out"),
    path("account/", include("portal.accounts.urls")),
    path("admin/", administration.urls),
    path("preferences/", preferences, name="preferences"),
    path("search/", search, name="search"),
    path("jobs/", jobs.jobs, name="jobs"),
    path("jobs/together/", bulk, name="jobs-bulk"),
    path("jobs/views/", saved_views.save, name="view-save"),
    path("jobs/views/<int:view_id>/delete/", saved_views.forget, name="view-forget"),
    path("submit/", submit, name="submit"),
    path("submit/outlook/", outlook, name="submit-outlook"),
    path("submit/fields/", filled, name="submit-fields"),
    path("jobs/<str:job_id>/", job.job, name="job"),
    path("jobs/<str:job_id>/output/", job_output.index, name="job-output"),
    path("jobs/<str:job_id>/output/<int:attempt>/<int:rank>/", job_output.download, name="job-output-download"),
    path("jobs/<str:job_id>/change/", job_changes.change, name="job-change"),
    path("jobs/<str:job_id>/again/", job_changes.again, name="job-again"),
    path("jobs/<str:job_id>/cancel/", job.cancel, name="job-cancel"),
    path("jobs/<str:job_id>/hold/", job.hold, name="job-hold"),
    path("jobs/<str:job_id>/release/", job.release, name="job-release"),
    path("queue/", queue, name="queue"),
    path("cluster/", cluster.cluster, name="cluster"),
    path("cluster/operate/", operate, name="operate"),
    path("incidents/", incidents.page, name="incidents"),
    path("starts/", starts.page, name="starts"),
    path("audit/", audit, name="audit"),
    path("planned/", planned.planned, name="planned"),
    path("planned/moves/<str:proposal_id>/", planned.accept_moves, name="moves-accept"),
    path("planned/maintenance/<int:window_id>/cancel/", planned.cancel_maintenance, name="maintenance-cancel"),
    path("planned/reservations/<str:reservation_id>/cancel/", planned.cancel_reservation, name="reservation-cancel"),
    path("cluster/hosts/", cluster.nodes, name="nodes"),
    path("cluster/hosts/<str:name>/", cluster.node, name="node"),
    path("cluster/hosts/<str:name>/panel/", cluster.panel, name="node-panel"),
    path("cluster/hosts/<str:name>/live/", host.live, name="node-live"),
    path("cluster/hosts/<str:name>/cordon/", cluster.cordon, name="node-cordon"),
    path("cluster/hosts/<str:name>/uncordon/", cluster.uncordon, name="node-uncordon"),
    path("cluster/hosts/<str:name>/drain/", cluster.drain, name="node-drain"),
    path("quotas/", quotas.quotas, name="quotas"),
    path("quotas/edit/", quota_edit.edit, name="quota-edit"),
    path("quotas/preview/", quota_edit.preview, name="quota-preview"),
    path("quotas/preview/<str:ticket>/", quota_edit.progress, name="quota-progress"),
    path("quotas/history/", quotas.quota_history, name="quota-history"),
    path("quotas/share/", quotas.share, name="share"),
    path("quotas/edits/<int:edit_id>/cancel/", quotas.cancel_edit, name="quota-edit-cancel"),
    path("usage/", usage, name="usage"),
    path("usage/budgets/", budgets.page, name="budgets"),
]
