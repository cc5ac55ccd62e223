"""Every address of the portal. Pages are in portal.views, the REST interface in portal.api."""

from django.urls import URLPattern, URLResolver

urlpatterns: list[URLPattern | URLResolver] = []
