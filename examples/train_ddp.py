"""The same with PyTorch: DistributedDataParallel over gloo, on CPUs. Needs torch, numpy and boto3.

    python train_ddp.py --steps 2000 --save-every 100

Rank 0 saves the model, the optimiser and the step; every rank computes its data from the step and its rank, so a
resumed run goes on as an undisturbed one would have.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
import time

import torch
import torch.distributed as dist
from gangway_checkpoint import Checkpoints
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FEATURES, HIDDEN, BATCH = 16, 32, 32


def model_and_optimiser() -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1)))
    return model, torch.optim.Adam(model.parameters(), lr=1e-3)


def batch(step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(step * 4096 + rank)
    inputs = torch.randn(BATCH, FEATURES, generator=random)
    return inputs, torch.sin(inputs.sum(dim=1, keepdim=True))


def agree(word: bool) -> bool:
    """Rank 0's word, on every rank."""
    told = torch.tensor([int(word)])
    dist.broadcast(told, src=0)
    return bool(told.item())


def anybody(word: bool) -> bool:
    """Whether any rank says so."""
    told = torch.tensor([int(word)])
    dist.all_reduce(told, op=dist.ReduceOp.MAX)
    return bool(told.item())


def begin(model: nn.Module, optimiser: torch.optim.Optimizer, checkpoints: Checkpoints) -> int:
    """Take up the newest checkpoint, on every rank; answers the steps that it holds."""
    saved = checkpoints.resume() if dist.get_rank() == 0 else None
    raw = [saved.files["state.pt"] if saved is not None else None]
    dist.broadcast_object_list(raw, src=0)
    if raw[0] is None:
        return 0
    state = torch.load(io.BytesIO(raw[0]), weights_only=True)
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    return int(state["step"])


def packed(model: nn.Module, optimiser: torch.optim.Optimizer, step: int) -> bytes:
    raw = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step}, raw)
    return raw.getvalue()


def train(options: argparse.Namespace, checkpoints: Checkpoints) -> nn.Module:
    model, optimiser = model_and_optimiser()
    step = begin(model, optimiser, checkpoints)
    while step < options.steps:
        inputs, wanted = batch(step, dist.get_rank())
        loss = nn.functional.mse_loss(model(inputs), wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        step += 1
        if dist.get_rank() == 0 and step % options.tell_every == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
        if anybody(checkpoints.asked) or step % options.save_every == 0 or step == options.steps:
            checkpoints.save(step, {"state.pt": packed(model, optimiser, step)}, agree)
        time.sleep(options.step_seconds)
    return model


def main() -> int:
    parser = argparse.ArgumentParser(description="A small training with PyTorch DDP over gloo.")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--tell-every", type=int, default=100)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="what a step takes longer than it needs")
    options = parser.parse_args()
    checkpoints = Checkpoints()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = train(options, checkpoints)
    raw = b"".join(values.numpy().tobytes() for values in model.state_dict().values())
    print(f"weights {hashlib.sha256(raw).hexdigest()}", flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
