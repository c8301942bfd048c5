"""Train and evaluate a linear Estimator; every role runs the same program."""

import os

import numpy as np
import tensorflow as tf

model_dir = os.path.join(os.environ["MODEL_DIR"], os.environ.get("TFJOB_RUN", "local"))
x = np.linspace(-1, 1, 512, dtype="float32")
y = 3 * x + 1


def inputs(repeat):
    def build():
        data = tf.data.Dataset.from_tensor_slices(({"x": x}, y))
        return (data.shuffle(512, seed=1).repeat() if repeat else data).batch(64)

    return build


config = tf.estimator.RunConfig(model_dir=model_dir, save_checkpoints_steps=100)
estimator = tf.estimator.LinearRegressor(
    [tf.feature_column.numeric_column("x")],
    config=config,
    optimizer=lambda: tf.keras.optimizers.legacy.SGD(0.05),
)
result = tf.estimator.train_and_evaluate(
    estimator,
    tf.estimator.TrainSpec(inputs(True), max_steps=300),
    tf.estimator.EvalSpec(inputs(False), steps=None, start_delay_secs=1, throttle_secs=1),
)
print(os.environ.get("TFJOB_ROLE"), "done:", result[0] if result else None, flush=True)
