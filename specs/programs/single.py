"""Fit a line on one machine."""

import os

import numpy as np
import tensorflow as tf

assert "TF_CONFIG" not in os.environ, "a single task needs no cluster"
x = np.linspace(-1, 1, 256, dtype="float32").reshape(-1, 1)
model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
model.compile(optimizer=tf.keras.optimizers.SGD(0.2), loss="mse")
history = model.fit(x, 3 * x + 1, epochs=20, verbose=0)
print("loss", round(history.history["loss"][-1], 6), flush=True)
assert history.history["loss"][-1] < 0.01
