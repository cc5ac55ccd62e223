"""The pages of a system that no host has joined yet: they say what to do next."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from scheduler.models import Job


@pytest.mark.parametrize("path", ["/", "/cluster/", "/cluster/hosts/", "/quotas/share/"])
def test_a_cluster_without_hosts_says_how_one_joins(oncall: Client, make_job: Callable[..., Job], path: str) -> None:
    make_job()
    page = oncall.get(path).content.decode()
    assert "manage.py join_token" in page
    assert "Nothing is on fire" not in page


def test_nobody_is_told_of_free_gpus_that_there_are_not(bob: Client, make_job: Callable[..., Job]) -> None:
    make_job("ada")
    page = bob.get("/").content.decode()
    assert "Nothing can start before a host has joined" in page
    assert "are free now" not in page
    assert "<small>job for 8 GPUs</small>" in page
