"""Fit a line with PyTorch's DistributedDataParallel: with torchrun, or as one process per task."""

import os

import torch
import torch.distributed as dist

STEPS = 60


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
    for _ in range(STEPS):
        x = torch.rand(64, 1)
        loss = torch.nn.functional.mse_loss(model(x), 3 * x + 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total = loss.detach()
    dist.all_reduce(total)
    if rank == 0:
        print(f"loss {total.item() / size:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
