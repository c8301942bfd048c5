"""Train one model by all tasks: rank 0 runs the tracker, at which they meet."""

import os
import socket

import numpy as np
import xgboost
from xgboost.tracker import RabitTracker

rank, size = int(os.environ["TFJOB_RANK"]), int(os.environ["TFJOB_WORLD_SIZE"])
host, _, port = os.environ["TFJOB_ADDRESS"].rpartition(":")
if rank == 0:
    tracker = RabitTracker(size, socket.gethostbyname(host), int(port))
    tracker.start()
with xgboost.collective.CommunicatorContext(
    dmlc_tracker_uri=socket.gethostbyname(host), dmlc_tracker_port=int(port), dmlc_task_id=str(rank)
):
    print(
        f"rank {xgboost.collective.get_rank()} of {xgboost.collective.get_world_size()}", flush=True
    )
    x = np.random.default_rng(rank).random((500, 1))
    data = xgboost.DMatrix(x, label=3 * x[:, 0] + 1)
    result: dict[str, dict[str, list[float]]] = {}
    xgboost.train(
        {"max_depth": 3, "learning_rate": 0.5},
        data,
        30,
        evals=[(data, "all")],
        evals_result=result,
        verbose_eval=False,
    )
    if xgboost.collective.get_rank() == 0:
        print(f"loss {result['all']['rmse'][-1]:.4f}", flush=True)
if rank == 0:
    tracker.wait_for()
