"""Fit a line with JAX: each process has its own data, and the gradients are averaged over all."""

import os

import jax

jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
)
import jax.numpy as jnp  # noqa: E402
from jax.experimental import multihost_utils  # noqa: E402


def loss_of(weights: jax.Array, x: jax.Array) -> jax.Array:
    """Return the mean squared error of a line."""
    return jnp.mean((weights[0] * x + weights[1] - (3 * x + 1)) ** 2)


print(f"process {jax.process_index()} of {jax.process_count()}", flush=True)
weights = jnp.zeros(2)
x = jax.random.uniform(jax.random.key(jax.process_index()), (64,))
for _ in range(60):
    gradients = multihost_utils.process_allgather(jax.grad(loss_of)(weights, x))
    weights -= 0.3 * gradients.mean(axis=0)
if jax.process_index() == 0:
    print(f"loss {float(loss_of(weights, x)):.4f}", flush=True)
