"""Signing in by an OpenID Connect provider, in a process whose settings name one."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.test import Client
from django.urls import clear_url_caches

import portal.accounts.urls
import portal.urls
from portal.accounts.models import User
from tests.portal.identity import CLIENT, Provider, provider
from tests.portal.people import make_tree, make_user

pytestmark = pytest.mark.django_db
ENVIRONMENT = {"CLIENT_ID": CLIENT, "CLIENT_SECRET": "for-tests", "NAME": "Example"}


def reload_addresses() -> None:
    importlib.reload(portal.accounts.urls)
    importlib.reload(portal.urls)
    clear_url_caches()


@pytest.fixture
def idp(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Provider]:
    from portal.settings import signin

    with provider() as running:
        monkeypatch.setenv("GANGWAY_OIDC_ISSUER", running.url)
        for name, value in ENVIRONMENT.items():
            monkeypatch.setenv(f"GANGWAY_OIDC_{name}", value)
        importlib.reload(signin)
        for name in ("SOCIALACCOUNT_PROVIDERS", "OIDC_NAME", "OIDC_SIGNUP"):
            setattr(settings, name, getattr(signin, name))
        reload_addresses()
        make_tree()
        yield running
    monkeypatch.undo()
    importlib.reload(signin)
    settings.SOCIALACCOUNT_PROVIDERS = {}
    reload_addresses()


def come_back(client: Client, idp: Provider, **claims: Any) -> Any:
    """Press the button, be sent to the provider, and come back as the person of these claims."""
    idp.claims = {"sub": "s-1", "email_verified": True, **claims}
    sent = client.post("/account/oidc/login/?next=/queue/")
    assert sent.status_code == 302, sent.content
    there = urlsplit(sent["Location"])
    assert f"{there.scheme}://{there.netloc}{there.path}" == f"{idp.url}/authorize"
    asked = {name: values[0] for name, values in parse_qs(there.query).items()}
    assert (asked["client_id"], asked["code_challenge_method"]) == (CLIENT, "S256")
    back = urlsplit(asked["redirect_uri"])
    return client.get(back.path, {"code": "good", "state": asked["state"]}, follow=True)


def whoever_is_in(client: Client) -> str | None:
    page = client.get("/queue/")
    return page.context["user"].username if page.status_code == 200 else None


def test_the_button_is_there_only_where_a_provider_is_named(idp: Provider) -> None:
    assert "Sign in with Example" in Client().get("/sign-in/").content.decode()


def test_a_verified_address_is_the_person_of_that_address(idp: Provider) -> None:
    make_user("ada", "vision")
    client = Client()
    answer = come_back(client, idp, email="ada@example.com")
    assert answer.redirect_chain[-1][0] == "/queue/"
    assert whoever_is_in(client) == "ada"
    assert idp.exchanged[0]["code_verifier"]
    assert User.objects.count() == 1


def test_an_address_that_is_not_verified_is_nobody_known(idp: Provider) -> None:
    make_user("ada", "vision")
    client = Client()
    come_back(client, idp, email="ada@example.com", email_verified=False)
    assert whoever_is_in(client) != "ada"


def test_somebody_new_belongs_to_no_team_and_may_nothing(idp: Provider) -> None:
    client = Client()
    come_back(client, idp, email="zoe@example.com", preferred_username="zoe", given_name="Zoe")
    zoe = User.objects.get()
    assert (whoever_is_in(client), zoe.email, zoe.is_superuser, zoe.memberships.count()) == (
        "zoe",
        "zoe@example.com",
        False,
        0,
    )
    assert not zoe.has_usable_password()


def test_somebody_new_is_turned_away_where_that_is_wished(idp: Provider, settings: Any) -> None:
    settings.OIDC_SIGNUP = False
    client = Client()
    answer = come_back(client, idp, email="zoe@example.com")
    assert "Nobody knows you here yet" in answer.content.decode()
    assert not User.objects.exists()


def test_the_second_factor_holds_here_too(idp: Provider) -> None:
    TOTP.activate(make_user("ada", "vision"), generate_totp_secret())
    client = Client()
    answer = come_back(client, idp, email="ada@example.com")
    assert answer.redirect_chain[-1][0].startswith("/account/second-factor/authenticate/")
    assert whoever_is_in(client) is None


def test_a_code_that_the_provider_refuses_lets_nobody_in(idp: Provider) -> None:
    idp.broken = True
    client = Client()
    answer = come_back(client, idp, email="ada@example.com")
    assert "Signing in did not work" in answer.content.decode()
    assert whoever_is_in(client) is None


def test_an_answer_that_nobody_asked_for_lets_nobody_in(idp: Provider) -> None:
    client = Client()
    answer = client.get("/account/oidc/login/callback/", {"code": "good", "state": "made-up"}, follow=True)
    assert "Signing in did not work" in answer.content.decode()
    assert whoever_is_in(client) is None
    assert idp.exchanged == []


def test_without_a_provider_there_is_no_way_to_it() -> None:
    assert "Sign in with" not in Client().get("/sign-in/").content.decode()
    assert Client().post("/account/oidc/login/").status_code == 404
