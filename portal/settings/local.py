"""`make run`: everything on loopback, plain HTTP."""

from portal.settings.base import *  # noqa: F403
from portal.settings.base import ALLOWED_HOSTS, SECRET_KEY
from scheduler import logs

logs.configure()

SECRET_KEY = SECRET_KEY or "loopback-only-not-a-secret"
ALLOWED_HOSTS = ALLOWED_HOSTS or ["127.0.0.1", "localhost", "[::1]"]
