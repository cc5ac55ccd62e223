"""No stores at all: for commands that read the code alone, such as the check that no migration is missing."""

from portal.settings.base import *  # noqa: F403

SECRET_KEY = "signs-nothing"  # noqa: S105
DATABASES = {"default": {"ENGINE": "django.db.backends.dummy"}}
