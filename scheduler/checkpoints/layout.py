"""Where the checkpoints of a job lie: ``<path>/<job>/a<attempt>-s<step>/manifest.json``. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scheduler.objects import Address

MANIFEST = "manifest.json"
_DIRECTORY = re.compile(r"a(\d{5,9})-s(\d{12,15})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """One checkpoint's directory below a job's own."""

    bucket: str
    prefix: str
    attempt: int
    step: int

    @property
    def manifest(self) -> Address:
        return Address(self.bucket, self.prefix + MANIFEST)

    def file(self, name: str) -> Address:
        """Where the file of that name lies.

        Raises:
            ValueError: no file of a checkpoint is called so.
        """
        if not name or name == MANIFEST or "/" in name or name in (".", ".."):
            raise ValueError(f"{name[:80]!r} is no name of a file")
        return Address(self.bucket, self.prefix + name)


def home(path: str, job_id: str) -> Address:
    """Below what all checkpoints of the job lie, given the address that it asked for.

    Raises:
        ValueError: that is no address.
    """
    at = Address.of(path)
    inside = at.key.strip("/")
    return Address(at.bucket, f"{inside}/{job_id}/" if inside else f"{job_id}/")


def place_of(key: str, below: Address) -> Place | None:
    """The checkpoint that the object ``key`` belongs to; None where it belongs to none below ``below``."""
    if not key.startswith(below.key):
        return None
    directory, slash, _ = key.removeprefix(below.key).partition("/")
    found = _DIRECTORY.fullmatch(directory)
    if found is None or not slash:
        return None
    return Place(below.bucket, f"{below.key}{directory}/", int(found[1]), int(found[2]))


def place_named(manifest: str, below: Address) -> Place | None:
    """The checkpoint whose manifest has this address; None where it lies anywhere else."""
    try:
        at = Address.of(manifest)
    except ValueError:
        return None
    place = place_of(at.key, below) if at.bucket == below.bucket else None
    return place if place is not None and place.manifest == at else None
