"""Every address of the portal. Pages are in portal.views, the REST interface in portal.api."""

from django.urls import URLPattern, URLResolver, include, path

from portal.api.health import healthz, readyz
from portal.api.metrics import metrics

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include("portal.api.urls")),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
]
