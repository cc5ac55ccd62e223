"""Checkpoints of a training under Gangway: a signal handler, a save that is whole or not there, a resume that verifies.

    checkpoints = Checkpoints()                                 # reads GANGWAY_*, RANK and WORLD_SIZE
    saved = checkpoints.resume()                                # on rank 0; None: begin anew. Broadcast what it holds
    while training:
        ...
        if every_rank_agrees(checkpoints.asked) or step % 100 == 0:
            checkpoints.save(step, {"state.npz": state}, agree) # on every rank; rank 0 writes

Copy it beside your script; it needs boto3. The object store is the one at GANGWAY_S3_URL (or AWS's own), the keys come
from the environment as boto3 reads them. The layout is that of docs/design/010-checkpoints-and-logs.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.client import Config
from botocore.exceptions import BotoCoreError, ClientError

FORMAT = "gangway-checkpoint/1"
MANIFEST = "manifest.json"
LONGEST_PAUSE_S = 30.0
GONE = ("NoSuchKey", "404")


class Torn(Exception):
    """A checkpoint that is not whole."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was read and verified."""

    step: int
    manifest: str
    files: dict[str, bytes]


class Checkpoints:
    """The checkpoints of this job. Once made, the checkpoint signal only sets ``asked``."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.asked = False
        self._job = environ["GANGWAY_JOB_ID"]
        self._attempt = int(environ["GANGWAY_ATTEMPT"])
        self._rank = int(environ["RANK"])
        self._world = int(environ["WORLD_SIZE"])
        self._resumes = bool(environ.get("GANGWAY_RESUME_FROM"))
        self._run_dir = environ.get("GANGWAY_RUN_DIR")
        self._bucket, _, path = environ["GANGWAY_CHECKPOINT_PATH"].removeprefix("s3://").partition("/")
        self._prefix = f"{path.strip('/')}/{self._job}/".lstrip("/")
        self._s3 = client(environ)
        name = environ.get("GANGWAY_CHECKPOINT_SIGNAL", "SIGUSR2")
        signal.signal(signal.Signals[name], self._ask)

    def _ask(self, number: int, frame: object) -> None:
        self.asked = True

    # --- saving

    def save(self, step: int, files: Mapping[str, bytes], agree: Callable[[bool], bool] = bool) -> bool:
        """Save the state, which every rank holds alike: rank 0 writes it. Whether it lies there now.

        A save that fails is told and tried again with the next one; the training goes on. ``agree`` hands rank 0's
        word to every rank (a broadcast) and is needed as soon as there are two.
        """
        if self._world > 1 and agree is bool:
            raise ValueError("several ranks have to agree whether rank 0 has saved: pass agree=")
        begun = time.time()
        manifest = f"{self._prefix}a{self._attempt:05}-s{step:012}/{MANIFEST}"
        if not agree(self._rank == 0 and self._write(manifest, step, files, begun)):
            return False
        self.asked = False
        self._acknowledge(self._address(manifest), step)
        return True

    def _write(self, manifest: str, step: int, files: Mapping[str, bytes], begun: float) -> bool:
        listed = []
        try:
            for name, data in files.items():
                digest = hashlib.sha256(data).hexdigest()
                self._put(manifest.replace(MANIFEST, name), data, digest)
                listed.append({"name": name, "size": len(data), "sha256": digest})
            now = time.time()
            body = {"format": FORMAT, "job": self._job, "attempt": self._attempt, "step": step, "files": listed}
            body |= {"saved_at_ms": int(now * 1000), "took_ms": int((now - begun) * 1000)}
            raw = json.dumps(body).encode()
            self._put(manifest, raw, hashlib.sha256(raw).hexdigest())  # last: from now on it is a checkpoint
        except (BotoCoreError, ClientError) as error:
            print(f"gangway: the checkpoint of step {step} was not saved, training goes on: {error}", flush=True)
            return False
        print(f"gangway: saved step {step}", flush=True)
        return True

    def _put(self, key: str, data: bytes, digest: str) -> None:
        self._s3.put_object(Bucket=self._bucket, Key=key, Body=data, Metadata={"sha256": digest})

    def _acknowledge(self, address: str, step: int) -> None:
        """Tell this host's agent, in one step: it finds the old file or the new one."""
        if self._run_dir is None:
            return
        fresh = Path(self._run_dir) / "checkpoint.json.new"
        fresh.write_text(json.dumps({"manifest": address, "step": step, "saved_at_ms": int(time.time() * 1000)}))
        fresh.replace(fresh.with_suffix(""))

    # --- resuming

    def resume(self) -> Saved | None:
        """The newest checkpoint that is whole, None to begin anew; on rank 0 alone. Others are skipped and told.

        Waits for an object store that does not answer: without it there is nothing to go on from.
        """
        pause_s = 0.5
        while self._resumes:
            try:
                return self._newest()
            except (BotoCoreError, ClientError) as error:
                print(f"gangway: cannot resume yet: {error}", flush=True)
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        return None

    def _newest(self) -> Saved | None:
        for key in sorted(self._manifests(), reverse=True):
            try:
                saved = self._read(key)
            except Torn as torn:
                print(f"gangway: skipped {self._address(key)}: {torn}", flush=True)
                continue
            print(f"gangway: resumes from step {saved.step}, {saved.manifest}", flush=True)
            return saved
        print("gangway: there is no whole checkpoint, begins anew", flush=True)
        return None

    def _manifests(self) -> Iterator[str]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix)
        for page in pages:
            yield from (one["Key"] for one in page.get("Contents", ()) if one["Key"].endswith("/" + MANIFEST))

    def _read(self, key: str) -> Saved:
        try:
            manifest = json.loads(self._get(key))
            if manifest["format"] != FORMAT or manifest["job"] != self._job:
                raise Torn("its manifest is another's")
            files = {one["name"]: self._verified(key, one) for one in manifest["files"]}
            return Saved(int(manifest["step"]), self._address(key), files)
        except (ValueError, KeyError, TypeError) as error:
            raise Torn(f"its manifest cannot be read: {error!r}") from error

    def _verified(self, manifest: str, listed: dict[str, Any]) -> bytes:
        data = self._get(manifest.replace(MANIFEST, listed["name"]))
        if len(data) != listed["size"] or hashlib.sha256(data).hexdigest() != listed["sha256"]:
            raise Torn(f"{listed['name']} is not what was saved")
        return data

    def _get(self, key: str) -> bytes:
        try:
            found: bytes = self._s3.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in GONE:
                raise Torn(f"{key.rpartition('/')[2]} is not there") from error
            raise
        return found

    def _address(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"


def client(environ: Mapping[str, str] = os.environ) -> Any:
    """An S3 client that gives up after seconds, so that a store which hangs does not hold up the training."""
    config = Config(
        connect_timeout=3,
        read_timeout=20,
        retries={"total_max_attempts": 2},
        s3={"addressing_style": "path"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return boto3.client("s3", endpoint_url=environ.get("GANGWAY_S3_URL") or None, config=config)
