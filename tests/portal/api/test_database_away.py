"""What callers are told while PostgreSQL does not answer."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError, connection

from tests.portal.api.conftest import Api, problem


def away(*_: Any) -> Any:
    raise OperationalError("the connection is closed")


@pytest.mark.parametrize("path", ["jobs", "quotas", "nodes"])
def test_a_database_that_does_not_answer_is_503_and_worth_another_try(ada: Api, path: str) -> None:
    with connection.execute_wrapper(away):
        response = ada.get(path)
    problem(response, 503)
    assert int(response["Retry-After"]) > 0
    assert ada.get(path).status_code == 200
