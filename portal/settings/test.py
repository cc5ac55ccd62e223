"""The test suite: real stores, whose URLs tests/conftest.py puts into the environment before Django is set up."""

from portal.settings.base import *  # noqa: F403

SECRET_KEY = "for-tests"
ALLOWED_HOSTS = ["*"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
