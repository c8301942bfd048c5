"""Run tasks on all nodes of a Ray cluster."""

import os
import time

import ray

ray.init(address=os.environ["TFJOB_HOSTS_HEAD"])


@ray.remote(num_cpus=1)
def square(number: int) -> tuple[int, str]:
    """Return the square, and the node that computed it."""
    time.sleep(1)
    return number * number, ray.get_runtime_context().get_node_id()


deadline = time.monotonic() + 120
while ray.cluster_resources().get("CPU", 0) < 3:
    if time.monotonic() > deadline:
        raise SystemExit(f"only {ray.cluster_resources()} have come")
    time.sleep(1)
found = ray.get([square.remote(number) for number in range(6)])
print(
    f"sum {sum(value for value, _node in found)} of {len({node for _value, node in found})} nodes"
)
