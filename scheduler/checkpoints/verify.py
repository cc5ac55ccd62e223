"""Whether a checkpoint is whole: its manifest, and every file that it names, with size and SHA-256."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from scheduler.checkpoints.layout import Place
from scheduler.objects import NoSuchObject, Objects, ObjectTooLarge

FORMAT = "gangway-checkpoint/1"
READ_UP_TO = 8 * 1024 * 1024
"""A file of more bytes is not read: its size and the SHA-256 that was stored with it have to do."""
MOST_MANIFEST = 4 * 1024 * 1024
MOST_FILES = 10_000
AT_ONCE = 8
"""Files that are looked at at the same time."""


class Torn(Exception):
    """The checkpoint is not whole. The message says why, in a line."""


class File(msgspec.Struct, frozen=True):
    name: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """What a checkpoint says of itself. It is written last."""

    format: str
    job: str
    attempt: int
    step: int
    saved_at_ms: int
    files: tuple[File, ...]
    took_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """A checkpoint that is whole: bytes and files, when it was complete and how long saving took."""

    size: int
    files: int
    saved_at_ms: int
    took_ms: int | None


def verify(objects: Objects, place: Place, job_id: str) -> Whole:
    """Look at the checkpoint's manifest and at all of its files.

    Raises:
        Torn: it must not be resumed from.
        ObjectsUnavailable: nothing can be said now.
    """
    manifest = _manifest(objects, place, job_id)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="checkpoints") as pool:
        looks = [pool.submit(_check, objects, place, file) for file in manifest.files]
        try:
            for look in looks:
                look.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    size = sum(file.size for file in manifest.files)
    return Whole(size, len(manifest.files), manifest.saved_at_ms, manifest.took_ms)


def _manifest(objects: Objects, place: Place, job_id: str) -> Manifest:
    try:
        found = msgspec.json.decode(objects.get(place.manifest, MOST_MANIFEST), type=Manifest)
    except NoSuchObject as error:
        raise Torn("its manifest is not there") from error
    except (ObjectTooLarge, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Torn(f"its manifest cannot be read: {error}"[:300]) from error
    if found.format != FORMAT or (found.job, found.attempt, found.step) != (job_id, place.attempt, place.step):
        raise Torn("its manifest is another's")
    if len(found.files) > MOST_FILES or not 0 <= found.saved_at_ms < 1 << 45:
        raise Torn("its manifest makes no sense")
    return found


def _check(objects: Objects, place: Place, file: File) -> None:
    try:
        at = place.file(file.name)
        facts = objects.facts(at)
        if facts.size != file.size:
            raise Torn(f"{file.name} has {facts.size} bytes, not {file.size}"[:300])
        digest = facts.sha256
        if file.size <= READ_UP_TO:
            digest = hashlib.sha256(objects.get(at, READ_UP_TO)).hexdigest()
    except (ValueError, ObjectTooLarge) as error:
        raise Torn(str(error)) from error
    except NoSuchObject as error:
        raise Torn(f"{file.name} is not there"[:300]) from error
    if digest != file.sha256 and (digest or file.size <= READ_UP_TO):
        raise Torn(f"{file.name} is not what was saved"[:300])
