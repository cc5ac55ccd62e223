"""Bearer tokens of people: the REST interface and the sockets recognise them here. Only their hashes are kept."""

from __future__ import annotations

from django.utils import timezone
from knox.crypto import hash_token
from knox.models import AuthToken


def find(token: str) -> AuthToken | None:
    """The live token of an active person, with its user, or None. One query, by the hash, which is the primary key."""
    try:
        digest = hash_token(token)
    except (TypeError, ValueError):
        return None
    found = AuthToken.objects.select_related("user").filter(digest=digest).first()
    if found is None or not found.user.is_active:
        return None
    if found.expiry is not None and found.expiry <= timezone.now():
        return None
    return found
