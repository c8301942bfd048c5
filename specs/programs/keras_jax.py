"""Fit a line with Keras 3 on JAX: each process has its own data, and feeds its part of a batch."""

import keras
import numpy as np

keras.distribution.initialize()
import jax  # noqa: E402 - after the processes have met

keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
keras.utils.set_random_seed(0)  # the same first weights in every process
print(f"process {jax.process_index()} of {jax.process_count()}", flush=True)
x = np.random.default_rng(jax.process_index()).random((256, 1)).astype("float32")
model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.3), loss="mse")
history = model.fit(x, 3 * x + 1, batch_size=64, epochs=20, verbose=0)
if jax.process_index() == 0:
    print(f"loss {history.history['loss'][-1]:.4f}", flush=True)
