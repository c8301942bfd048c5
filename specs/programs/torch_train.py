"""Fit a line with PyTorch's DistributedDataParallel: with torchrun, or as one process per task.

Where CHECKPOINT names a file that every task reads, rank 0 writes it every ten steps, and all continue from it.
"""

import os

import torch
import torch.distributed as dist

STEPS = int(os.environ.get("STEPS", "60"))
CHECKPOINT = os.environ.get("CHECKPOINT", "")


def main() -> None:
    """Train, and print the loss of rank 0."""
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    print(f"rank {rank} of {size}", flush=True)
    torch.manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    first = 0
    if os.path.exists(CHECKPOINT):
        saved = torch.load(CHECKPOINT)
        model.load_state_dict(saved["model"])
        first = saved["step"]
        print(f"from step {first}", flush=True)
    for step in range(first, STEPS):
        x = torch.rand(64, 1)
        loss = torch.nn.functional.mse_loss(model(x), 3 * x + 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if CHECKPOINT and rank == 0 and step % 10 == 9:
            torch.save({"model": model.state_dict(), "step": step + 1}, CHECKPOINT + ".new")
            os.replace(CHECKPOINT + ".new", CHECKPOINT)
    total = loss.detach()
    dist.all_reduce(total)
    if rank == 0:
        print(f"loss {total.item() / size:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
