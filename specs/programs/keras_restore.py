"""Fit a line under MultiWorkerMirroredStrategy, and continue from the last backup after a restart.

    python keras_restore.py DIRECTORY [EPOCHS]

Every task must reach the directory. BackupAndRestore writes a backup there after each epoch, and removes it at the end of `fit`.
"""

import os
import sys

import numpy as np
import tensorflow as tf

directory, epochs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")


def announce(epoch, _logs):
    generation = os.environ.get("TFJOB_GENERATION", "0")
    print(f"epoch {epoch} of generation {generation}", flush=True)


x = np.random.default_rng(1).uniform(-1, 1, (1024, 1)).astype("float32")
history = model.fit(
    tf.data.Dataset.from_tensor_slices((x, 3 * x + 1)).repeat().batch(64),
    epochs=epochs,
    steps_per_epoch=16,
    verbose=2 if os.environ.get("TFJOB_ROLE") == "chief" else 0,
    callbacks=[
        tf.keras.callbacks.BackupAndRestore(directory),
        tf.keras.callbacks.LambdaCallback(on_epoch_begin=announce),
    ],
)
loss = history.history["loss"][-1]
print(f"loss {loss:.5f}", flush=True)
assert loss < 0.01, loss
