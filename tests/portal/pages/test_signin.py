"""Signing in: who is let in, what a refusal says, where one lands."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from tests.portal.people import PASSWORD, make_user


def test_every_page_asks_a_stranger_to_sign_in(db: None) -> None:
    for name in ("home", "jobs", "submit", "queue", "cluster", "nodes"):
        answer = Client().get(reverse(name))
        assert answer.status_code == 302
        assert answer["Location"] == f"/sign-in/?next={reverse(name)}"


@pytest.mark.parametrize(
    "typed",
    [
        pytest.param({"username": "ada", "password": "wrong"}, id="wrong password"),
        pytest.param({"username": "nobody", "password": PASSWORD}, id="unknown name"),
    ],
)
def test_a_refusal_says_so_and_does_not_tell_which_of_the_two_was_wrong(tree: None, typed: dict[str, str]) -> None:
    make_user("ada", "vision")
    answer = Client().post("/sign-in/", typed)
    assert answer.status_code == 401
    assert "That user name and password do not belong together" in answer.content.decode()


def test_signing_in_leads_to_the_page_that_was_asked_for(tree: None) -> None:
    make_user("ada", "vision")
    answer = Client().post("/sign-in/", {"username": "ada", "password": PASSWORD, "next": "/queue/"})
    assert (answer.status_code, answer["Location"]) == (302, "/queue/")


def test_no_page_of_another_site_is_led_to(tree: None) -> None:
    make_user("ada", "vision")
    answer = Client().post("/sign-in/", {"username": "ada", "password": PASSWORD, "next": "https://evil.example/"})
    assert answer["Location"] == "/"


def test_a_choice_of_theme_is_kept_and_leads_back(ada: Client) -> None:
    answer = ada.post("/preferences/", {"theme": "dark", "next": "/jobs/?whose=all"})
    assert answer["Location"] == "/jobs/?whose=all"
    assert 'data-theme="dark"' in ada.get("/jobs/").content.decode()


def test_an_unknown_theme_and_a_foreign_way_back_are_not_taken(ada: Client) -> None:
    answer = ada.post("/preferences/", {"theme": '"><script>', "next": "//evil.example/"})
    assert answer["Location"] == "/"
    assert 'data-theme="auto"' in ada.get("/jobs/").content.decode()


def test_pages_run_no_script_and_no_style_but_their_own(ada: Client) -> None:
    policy = ada.get("/")["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
