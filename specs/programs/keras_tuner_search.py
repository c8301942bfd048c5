"""Search a learning rate: as the oracle in the chief, as a tuner elsewhere (KERASTUNER_TUNER_ID)."""

import os

import keras
import keras_tuner
import numpy as np


def build(choices: keras_tuner.HyperParameters) -> keras.Model:
    """Return a model with a learning rate of the oracle's."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    rate = choices.Float("rate", 0.1, 0.9)
    model.compile(optimizer=keras.optimizers.SGD(rate), loss="mse")
    return model


tuner = keras_tuner.RandomSearch(
    build, objective="val_loss", max_trials=4, directory="trials", project_name="search", seed=1
)
x = np.random.default_rng(1).random((256, 1)).astype("float32")
tuner.search(x, 3 * x + 1, epochs=20, validation_data=(x, 3 * x + 1), verbose=0)
if os.environ["KERASTUNER_TUNER_ID"] == "chief":
    scores = [trial.score for trial in tuner.oracle.trials.values()]
    print(f"{len(scores)} trials, the best with loss {min(scores):.4f}", flush=True)
