"""Train a small convolutional network on handwritten digits with MultiWorkerMirroredStrategy.

Reads its input from a file system (HDFS without Java, through hdfs-native) and writes model, metrics and TensorBoard's event files there.

    python train.py --data hdfs:///data/digits.npz --output hdfs:///models/digits [--epochs 8]
"""

import argparse
import io
import json
import os
import shutil
import tempfile

import fsspec
import numpy as np
import tensorflow as tf


def load(uri):
    with fsspec.open(uri, "rb") as file:
        data = np.load(io.BytesIO(file.read()))
    images = (data["images"].astype("float32") / 16.0)[..., np.newaxis]
    labels = data["labels"].astype("int64")
    order = np.random.default_rng(7).permutation(len(images))
    images, labels = images[order], labels[order]
    cut = len(images) * 4 // 5
    return (images[:cut], labels[:cut]), (images[cut:], labels[cut:])


def build_model():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu", input_shape=(8, 8, 1)),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.Adam(2e-3),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


class Report(tf.keras.callbacks.Callback):
    """Tell submit_tf_job how far the training is: one small JSON file, replaced as a whole."""

    def __init__(self, epochs):
        super().__init__()
        self.epochs = epochs

    def on_epoch_end(self, epoch, logs=None):
        path = os.environ.get("TFJOB_PROGRESS_FILE")
        if not path:
            return
        metrics = {name: round(float(value), 4) for name, value in (logs or {}).items()}
        with open(path + ".new", "w") as file:
            json.dump({"step": epoch + 1, "total": self.epochs, "metrics": metrics}, file)
        os.replace(path + ".new", path)


class Publish(tf.keras.callbacks.Callback):
    """Copy TensorBoard's event files to the file system after each epoch, for a TensorBoard that runs elsewhere."""

    def __init__(self, local, remote):
        super().__init__()
        self.local, self.remote = local, remote

    def on_epoch_end(self, epoch, logs=None):
        put_tree(self.local, self.remote)


def put_tree(local, remote):
    for directory, _, names in os.walk(local):
        for name in names:
            path = os.path.join(directory, name)
            with (
                open(path, "rb") as source,
                fsspec.open(f"{remote}/{os.path.relpath(path, local)}", "wb") as target,
            ):
                shutil.copyfileobj(source, target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()

    role = os.environ.get("TFJOB_ROLE", "chief")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    train, test = load(options.data)
    print(
        f"{role}: {len(train[0])} images to learn from, {strategy.num_replicas_in_sync} replicas",
        flush=True,
    )

    dataset = (
        tf.data.Dataset.from_tensor_slices(train)
        .shuffle(2048, seed=1)
        .repeat()
        .batch(options.batch)
    )
    auto_shard = tf.data.Options()
    auto_shard.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = dataset.with_options(auto_shard)
    validation = (
        tf.data.Dataset.from_tensor_slices(test).batch(options.batch).with_options(auto_shard)
    )
    with strategy.scope():
        model = build_model()

    work = tempfile.mkdtemp()
    events = os.path.join(work, "events")
    callbacks = [Report(options.epochs)]
    if role == "chief":
        callbacks += [
            tf.keras.callbacks.TensorBoard(events),
            Publish(events, f"{options.output}/events"),
        ]
    history = model.fit(
        dataset,
        epochs=options.epochs,
        steps_per_epoch=len(train[0]) // options.batch,
        validation_data=validation,
        callbacks=callbacks,
        verbose=2,
    )

    # Every worker saves, for the saving itself is collective; only the chief's copy is kept.
    path = os.path.join(work, "model.keras")
    model.save(path)
    if role == "chief":
        metrics = {name: round(float(values[-1]), 4) for name, values in history.history.items()}
        with (
            open(path, "rb") as source,
            fsspec.open(f"{options.output}/model.keras", "wb") as target,
        ):
            shutil.copyfileobj(source, target)
        with fsspec.open(f"{options.output}/metrics.json", "w") as file:
            json.dump(metrics, file)
        print(f"accuracy on unseen digits: {metrics['val_accuracy']}", flush=True)
        print(f"model: {options.output}/model.keras", flush=True)


if __name__ == "__main__":
    main()
