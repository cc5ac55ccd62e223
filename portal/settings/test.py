"""The test suite: real stores, whose addresses are chosen here and which tests/conftest.py starts on first use."""

from tests import stores

stores.choose()

from portal.settings.base import *  # noqa: E402, F403

SECRET_KEY = "for-tests"  # noqa: S105
ALLOWED_HOSTS = ["*"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# Static files straight from their sources: nothing is collected before the tests.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True
