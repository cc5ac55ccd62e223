"""Settings that hold everywhere. What a deployment chooses comes from the environment, by GANGWAY_* names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from csp import constants as csp

from portal.settings import signin
from portal.settings.administration import *  # noqa: F403
from portal.settings.signin import *  # noqa: F403

BASE_DIR = Path(__file__).resolve().parent.parent.parent

POSTGRES_URL = os.environ.get("GANGWAY_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/gangway")
ETCD_URL = os.environ.get("GANGWAY_ETCD_URL", "http://127.0.0.1:2379")
REDIS_URL = os.environ.get("GANGWAY_REDIS_URL", "redis://127.0.0.1:6379/0")
S3_URL = os.environ.get("GANGWAY_S3_URL", "http://127.0.0.1:9000")

MODELS_BUCKET = os.environ.get("GANGWAY_MODELS_BUCKET", "gangway-models")
LOGS_BUCKET = os.environ.get("GANGWAY_LOGS_BUCKET", "gangway-logs")
LOG_LIMIT_BYTES = int(os.environ.get("GANGWAY_LOG_LIMIT_MB", "16")) * 1024 * 1024
"""What is kept of the log of one rank of one attempt."""
LOGS_KEPT_DAYS = int(os.environ.get("GANGWAY_LOGS_KEPT_DAYS", "30"))
"""For how long after a job's end its logs are kept."""

SECRET_KEY = os.environ.get("GANGWAY_SECRET_KEY", "")
DEBUG = False
ALLOWED_HOSTS = [host for host in os.environ.get("GANGWAY_ALLOWED_HOSTS", "").split(",") if host]
CSRF_TRUSTED_ORIGINS = [origin for origin in os.environ.get("GANGWAY_ORIGINS", "").split(",") if origin]

INSTALLED_APPS = [
    "unfold.apps.BasicAppConfig",
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "knox",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_htmx",
    "template_partials",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "portal.accounts",
    "quotas",
    "nodes",
    "scheduler",
    "portal",
]

MIDDLEWARE = [
    "portal.api.middleware.problem_middleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "csp.middleware.CSPMiddleware",
]

ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]


def postgres(url: str) -> dict[str, Any]:
    """Django's DATABASES entry for a ``postgresql://`` URL; its query (``host=/socket/dir``) becomes options."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.pop("host", parts.hostname or ""),
        "PORT": query.pop("port", str(parts.port or "")),
        "OPTIONS": {**query, "pool": {"min_size": 1, "max_size": 16, "timeout": 10}},
        "CONN_MAX_AGE": 0,
        # A connection of the pool that a restart of the server has broken is replaced instead of handed out.
        "CONN_HEALTH_CHECKS": True,
    }


DATABASES = {"default": postgres(POSTGRES_URL)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.User"
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "sign-in"

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        # redis-py closes a socket that is silent for 5 s unless told not to.
        "CONFIG": {"hosts": [{"address": REDIS_URL, "socket_timeout": None}]},
    }
}

CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.api.sessions.BearerAuthentication",
        "portal.api.sessions.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["portal.api.parsers.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "portal.api.errors.handler",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
REST_KNOX = {"AUTH_HEADER_PREFIX": "Bearer", "TOKEN_TTL": None, "TOKEN_LIMIT_PER_USER": None}

SPECTACULAR_SETTINGS = {
    "TITLE": "Gangway",
    "DESCRIPTION": "Submit training jobs, watch the queue and the cluster, and operate its nodes.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "OAS_VERSION": "3.1.0",
    "POSTPROCESSING_HOOKS": ["portal.api.description.add_components", "portal.api.agent_description.add_agents"],
}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = Path(os.environ.get("GANGWAY_STATIC_ROOT", BASE_DIR / ".gangway" / "static"))

DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SESSION_COOKIE_HTTPONLY = True
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [csp.SELF],
        "img-src": [csp.SELF, "data:"],
        "object-src": [csp.NONE],
        "base-uri": [csp.NONE],
        "form-action": [csp.SELF, *filter(None, [signin.OIDC_ORIGIN])],
        "frame-ancestors": [csp.NONE],
    }
}

GANGWAY_POLICY: dict[str, Any] = {
    "reason_every_ms": 2000,
    "heartbeat_timeout_ms": 15_000,
    "failure_confirm_ms": 3_000,
}
"""How the live tick decides: fields of ``scheduler.core.types.Policy``; what is left out keeps its default."""

TRAIN_EVERY_S = 1800.0
"""How often the model of run times is trained anew."""
CELERY_BROKER_URL = REDIS_URL
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# A message that nobody took in time is old news: the next one does the same work.
CELERY_BEAT_SCHEDULE = {
    "tick": {"task": "scheduler.tasks.tick", "schedule": 1.0, "options": {"expires": 1.0}},
    "repair fragmentation": {
        "task": "scheduler.tasks.repair_fragmentation",
        "schedule": 60.0,
        "options": {"expires": 60.0},
    },
    "record": {"task": "scheduler.tasks.record", "schedule": 1.0, "options": {"expires": 1.0}},
    "forecast starts": {"task": "scheduler.tasks.refresh_forecast", "schedule": 10.0, "options": {"expires": 10.0}},
    "tell starts": {"task": "scheduler.tasks.refresh_etas", "schedule": 10.0, "options": {"expires": 10.0}},
    "learn run times": {
        "task": "scheduler.tasks.train_run_times",
        "schedule": TRAIN_EVERY_S,
        "options": {"expires": TRAIN_EVERY_S},
    },
    "score starts": {"task": "scheduler.tasks.score_etas", "schedule": 30.0, "options": {"expires": 30.0}},
    "sweep the outbox": {"task": "scheduler.tasks.sweep_outbox", "schedule": 2.0, "options": {"expires": 2.0}},
    "carry out quota edits": {
        "task": "scheduler.tasks.carry_out_quota_edits",
        "schedule": 2.0,
        "options": {"expires": 2.0},
    },
    "prune logs": {"task": "scheduler.tasks.prune_logs", "schedule": 3600.0, "options": {"expires": 3600.0}},
    "look at checkpoints": {
        "task": "scheduler.tasks.look_at_checkpoints",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
    "keep frames": {"task": "scheduler.tasks.keep_frames", "schedule": 20.0, "options": {"expires": 20.0}},
    "let go of what is over": {"task": "scheduler.tasks.let_go", "schedule": 10.0, "options": {"expires": 10.0}},
    "roll up usage": {"task": "scheduler.tasks.roll_up_usage", "schedule": 30.0, "options": {"expires": 30.0}},
    "fold the counts": {"task": "scheduler.tasks.fold_counts", "schedule": 60.0, "options": {"expires": 60.0}},
}

# Django's own default tells of a failed page by e-mail alone.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "django": {"handlers": [], "level": "WARNING", "propagate": True},
        "django.request": {"level": "ERROR"},
    },
}
