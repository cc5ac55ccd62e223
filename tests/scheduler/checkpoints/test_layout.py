"""Which addresses are a job's checkpoints, and which are nobody's business."""

from __future__ import annotations

import pytest

from scheduler.checkpoints.layout import home, place_named, place_of
from scheduler.objects import Address

BELOW = home("s3://models/team/run/", "01JOB")
GOOD = "team/run/01JOB/a00002-s000000000120/"


@pytest.mark.parametrize(
    ("path", "bucket", "key"),
    [
        pytest.param("s3://models/team/run/", "models", "team/run/01JOB/", id="a prefix"),
        pytest.param("s3://models/team/run", "models", "team/run/01JOB/", id="without the last slash"),
        pytest.param("s3://models/", "models", "01JOB/", id="a whole bucket"),
        pytest.param("s3://models/a?b#c", "models", "a?b#c/01JOB/", id="characters that mean nothing here"),
    ],
)
def test_a_jobs_checkpoints_lie_below_its_own_name(path: str, bucket: str, key: str) -> None:
    assert home(path, "01JOB") == Address(bucket, key)


@pytest.mark.parametrize("path", ["", "models/run", "s3://", "https://models/run"])
def test_what_is_no_address_has_none(path: str) -> None:
    with pytest.raises(ValueError, match="address"):
        home(path, "01JOB")


def test_a_place_knows_its_attempt_and_step() -> None:
    place = place_of(GOOD + "weights.npz", BELOW)
    assert place is not None
    assert (place.attempt, place.step) == (2, 120)
    assert place_named(f"s3://models/{GOOD}manifest.json", BELOW) == place


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(f"s3://other/{GOOD}manifest.json", id="another bucket"),
        pytest.param("s3://models/team/run/02JOB/a00002-s000000000120/manifest.json", id="another job"),
        pytest.param("s3://models/team/run/01JOB/step-7/manifest.json", id="another layout"),
        pytest.param(f"s3://models/{GOOD}deeper/manifest.json", id="deeper"),
        pytest.param(f"s3://models/{GOOD}weights.npz", id="no manifest"),
        pytest.param(f"s3://models/{GOOD}../../x/manifest.json", id="dots"),
        pytest.param("nonsense", id="no address"),
    ],
)
def test_what_lies_elsewhere_is_not_looked_at(manifest: str) -> None:
    assert place_named(manifest, BELOW) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "manifest.json"])
def test_a_manifest_names_files_of_its_own_directory_alone(name: str) -> None:
    place = place_of(GOOD, BELOW)
    assert place is not None
    with pytest.raises(ValueError, match="no name"):
        place.file(name)
