from __future__ import annotations

import pytest

from nodes.agent.notices import aws, azure, gcp


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often: what is tested is what comes of a look, not how long it takes until the next."""
    monkeypatch.setattr(aws, "EVERY_S", 0.02)
    monkeypatch.setattr(aws, "SCHEDULE_EVERY_S", 0.02)
    monkeypatch.setattr(aws, "MOST_S", 0.05)
    monkeypatch.setattr(azure, "EVERY_S", 0.02)
    monkeypatch.setattr(azure, "MOST_S", 0.05)
    monkeypatch.setattr(gcp, "PAUSE_S", 0.02)
    monkeypatch.setattr(gcp, "MOST_S", 0.05)
