"""A small data-parallel training over sockets, to see a gang trained, stopped and resumed. Needs numpy and boto3.

    python train_numpy.py --steps 2000 --save-every 100

Each rank computes the gradient of its own part of the data; rank 0 adds them up in the order of the ranks, so that the
same steps give the same weights to the last bit, wherever and however often the job was stopped between them. The last
line tells their SHA-256.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import socket
import struct
import sys
import time

import numpy as np
from gangway_checkpoint import Checkpoints

FEATURES, HIDDEN, BATCH, RATE = 16, 32, 32, 0.05
PATIENCE_S = 600.0
WAITED_LONG = 75

Arrays = dict[str, np.ndarray]


class Peers:
    """The other ranks: everybody speaks with rank 0, which is at MASTER_ADDR and MASTER_PORT."""

    def __init__(self, rank: int, world: int, address: tuple[str, int]) -> None:
        self.rank, self.world = rank, world
        self._links = self._gather(address) if rank == 0 else [self._join(address)]

    def _gather(self, address: tuple[str, int]) -> list[socket.socket]:
        found: dict[int, socket.socket] = {}
        with socket.create_server(("", address[1]), backlog=self.world) as door:
            door.settimeout(PATIENCE_S)
            while len(found) < self.world - 1:
                link, _ = door.accept()
                link.settimeout(None)
                found[struct.unpack("!I", _read(link, 4))[0]] = link
        return [found[rank] for rank in sorted(found)]

    def _join(self, address: tuple[str, int]) -> socket.socket:
        ends = time.monotonic() + PATIENCE_S
        while True:
            try:
                link = socket.create_connection(address, timeout=5)
                break
            except OSError:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.05)
        link.settimeout(None)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.sendall(struct.pack("!I", self.rank))
        return link

    def add_up(self, values: np.ndarray) -> np.ndarray:
        """The sum over all ranks, added in their order."""
        if self.rank == 0:
            total = values.copy()
            for link in self._links:
                total += np.frombuffer(_receive(link))
            return self.share(total)
        _send(self._links[0], values)
        return self.share(values)

    def share(self, values: np.ndarray) -> np.ndarray:
        """Rank 0's values, on every rank."""
        if self.rank == 0:
            for link in self._links:
                _send(link, values)
            return values
        return np.frombuffer(_receive(self._links[0])).reshape(values.shape)


def _send(link: socket.socket, values: np.ndarray) -> None:
    raw = values.tobytes()
    link.sendall(struct.pack("!Q", len(raw)) + raw)


def _receive(link: socket.socket) -> bytes:
    return _read(link, struct.unpack("!Q", _read(link, 8))[0])


def _read(link: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = link.recv(size - len(found))
        if not part:
            raise ConnectionError("a rank is gone")
        found += part
    return bytes(found)


def fresh_weights() -> Arrays:
    random = np.random.default_rng(7)
    return {"in": random.normal(0, 0.3, (FEATURES, HIDDEN)), "out": random.normal(0, 0.3, (HIDDEN, 1))}


def gradient(weights: Arrays, step: int, rank: int) -> tuple[np.ndarray, float]:
    """The gradient on this rank's part of the step's data, flat, and its loss."""
    random = np.random.default_rng([11, step, rank])
    inputs = random.normal(size=(BATCH, FEATURES))
    wanted = np.sin(inputs.sum(axis=1, keepdims=True))
    hidden = np.tanh(inputs @ weights["in"])
    error = hidden @ weights["out"] - wanted
    of_out = hidden.T @ error
    of_in = inputs.T @ ((error @ weights["out"].T) * (1 - hidden**2))
    return np.concatenate([of_in.ravel(), of_out.ravel()]) / BATCH, float((error**2).mean())


def descend(weights: Arrays, total: np.ndarray, world: int) -> None:
    split = weights["in"].size
    weights["in"] -= RATE / world * total[:split].reshape(weights["in"].shape)
    weights["out"] -= RATE / world * total[split:].reshape(weights["out"].shape)


def packed(weights: Arrays) -> bytes:
    raw = io.BytesIO()
    np.savez(raw, **weights)
    return raw.getvalue()


def train(options: argparse.Namespace, peers: Peers, checkpoints: Checkpoints) -> Arrays:
    weights = fresh_weights()
    step = begin(weights, peers, checkpoints)

    def agree(saved: bool) -> bool:
        return bool(peers.share(np.array([float(saved)]))[0])

    while step < options.steps:
        own, loss = gradient(weights, step, peers.rank)
        total = peers.add_up(np.append(own, [loss, float(checkpoints.asked)]))
        descend(weights, total[:-2], peers.world)
        step += 1
        if peers.rank == 0 and step % options.tell_every == 0:
            print(f"step {step} loss {total[-2] / peers.world:.6f}", flush=True)
        if total[-1] > 0 or step % options.save_every == 0 or step == options.steps:
            checkpoints.save(step, {"weights.npz": packed(weights)}, agree)
        time.sleep(options.step_seconds)
    return weights


def begin(weights: Arrays, peers: Peers, checkpoints: Checkpoints) -> int:
    """Take up the newest checkpoint, on every rank; answers the steps that it holds."""
    step = 0
    saved = checkpoints.resume() if peers.rank == 0 else None
    if saved is not None:
        step = saved.step
        with np.load(io.BytesIO(saved.files["weights.npz"])) as found:
            weights.update({name: found[name] for name in weights})
    for name, values in weights.items():
        weights[name] = peers.share(values).copy()
    return int(peers.share(np.array([float(step)]))[0])


def main() -> int:
    parser = argparse.ArgumentParser(description="A small data-parallel training over sockets.")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--tell-every", type=int, default=100)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="what a step takes longer than it needs")
    options = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    checkpoints = Checkpoints()
    try:
        peers = Peers(rank, world, (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
        weights = train(options, peers, checkpoints)
    except OSError as error:
        # Whose fault it is that a rank is gone is the scheduler's to tell: it stops this one too.
        print(f"rank {rank} waits to be stopped: {error}", flush=True)
        time.sleep(PATIENCE_S)
        return WAITED_LONG
    digest = hashlib.sha256(b"".join(weights[name].tobytes() for name in sorted(weights))).hexdigest()
    print(f"weights {digest}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
