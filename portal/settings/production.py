"""A deployment: behind TLS, with its own secret."""

from django.core.exceptions import ImproperlyConfigured

from portal.settings.base import *  # noqa: F403
from portal.settings.base import ALLOWED_HOSTS, SECRET_KEY
from scheduler import logs

logs.configure()

if not SECRET_KEY:
    raise ImproperlyConfigured("GANGWAY_SECRET_KEY is not set: give it 50 random characters")
if not ALLOWED_HOSTS:
    raise ImproperlyConfigured("GANGWAY_ALLOWED_HOSTS is not set: name the hosts that the portal answers to")

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = True
SECURE_HSTS_SECONDS = 31_536_000
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
