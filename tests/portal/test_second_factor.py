"""The second factor, for pages and for tokens, and the limit on tries."""

from __future__ import annotations

import time
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, generate_totp_secret, hotp_value
from django.core.cache import cache
from django.test import Client

from portal.accounts.models import User
from tests.portal.pages.conftest import signed_in
from tests.portal.people import PASSWORD, make_tree, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nobody_has_tried_yet() -> None:
    cache.clear()


@pytest.fixture
def ada() -> User:
    make_tree()
    return make_user("ada", "vision")


def code_of(secret: str) -> str:
    return str(format_hotp_value(hotp_value(secret, int(time.time()) // 30)))


def sign_in(client: Client, **more: str) -> Any:
    return client.post("/sign-in/", {"username": "ada", "password": PASSWORD, **more})


def is_in(client: Client) -> bool:
    return client.get("/jobs/").status_code == 200


def test_the_password_alone_is_not_enough(ada: User) -> None:
    secret = generate_totp_secret()
    TOTP.activate(ada, secret)
    client = Client()
    answer = sign_in(client, next="/queue/")
    assert answer["Location"].startswith("/account/second-factor/authenticate/")
    assert not is_in(client)
    wrong = client.post(answer["Location"], {"code": "000000"})
    assert "Incorrect code" in wrong.content.decode()
    assert not is_in(client)
    right = client.post(answer["Location"], {"code": code_of(secret)})
    assert right["Location"] == "/queue/"
    assert is_in(client)


def test_a_code_holds_once(ada: User) -> None:
    secret = generate_totp_secret()
    TOTP.activate(ada, secret)
    code = code_of(secret)
    for let_in in (True, False):
        client = Client()
        client.post(sign_in(client)["Location"], {"code": code})
        assert is_in(client) is let_in


def test_a_recovery_code_lets_in_once(ada: User) -> None:
    TOTP.activate(ada, generate_totp_secret())
    code = RecoveryCodes.activate(ada).generate_codes()[0]
    for let_in in (True, False):
        client = Client()
        client.post(sign_in(client)["Location"], {"code": code})
        assert is_in(client) is let_in


def test_it_is_set_up_and_taken_off_on_its_pages(ada: User) -> None:
    client = signed_in(ada)
    client.post("/account/confirm/", {"password": PASSWORD})
    page = client.get("/account/second-factor/totp/activate/")
    secret = page.context["form"].secret
    assert "data:image/svg+xml" in page.content.decode()
    done = client.post("/account/second-factor/totp/activate/", {"code": code_of(secret)}, follow=True)
    assert len(done.context["unused_codes"]) == 10
    assert "Turn it off" in client.get("/account/second-factor/").content.decode()
    client.post("/account/second-factor/totp/deactivate/")
    assert not Authenticator.objects.filter(user=ada).exists()


def test_changing_it_asks_for_the_password_once_more(ada: User) -> None:
    client = signed_in(ada)
    answer = client.get("/account/second-factor/totp/activate/")
    assert answer["Location"].startswith("/account/confirm/")
    again = client.post(answer["Location"], {"password": PASSWORD})
    assert again["Location"] == "/account/second-factor/totp/activate/"


def test_a_token_takes_the_code_too(ada: User) -> None:
    secret = generate_totp_secret()
    TOTP.activate(ada, secret)
    body = {"username": "ada", "password": PASSWORD}
    client = Client()
    for code, status in ((None, 401), ("000000", 401), (code_of(secret), 201)):
        answer = client.post("/api/v1/auth/tokens", {**body, "code": code}, content_type="application/json")
        assert answer.status_code == status, answer.content


def test_tries_are_limited_for_a_name_whatever_comes_next(ada: User) -> None:
    for _ in range(5):
        assert Client().post("/sign-in/", {"username": "ada", "password": "guess"}).status_code == 401
    answer = sign_in(Client())
    assert answer.status_code == 401
    assert "Too many tries" in answer.content.decode()


def test_a_limit_that_cannot_be_kept_keeps_nobody_out(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    from redis.exceptions import ConnectionError

    def away(*args: Any, **more: Any) -> None:
        raise ConnectionError("no cache")

    monkeypatch.setattr("allauth.core.ratelimit.consume", away)
    client = Client()
    sign_in(client)
    assert is_in(client)


def test_somebody_switched_off_is_not_let_in(ada: User) -> None:
    User.objects.update(is_active=False)
    client = Client()
    sign_in(client)
    assert not is_in(client)
