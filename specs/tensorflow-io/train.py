"""Train with MultiWorkerMirroredStrategy, where TensorFlow itself reads and writes hdfs://.

Started by specs/tensorflow-io.yaml. Each epoch's curves and checkpoint are on HDFS when it ends: TensorBoard shows a training that
runs or was killed, and the same job goes on where it stood.
"""

import argparse
import json
import os

import tensorflow as tf
import tensorflow_io  # noqa: F401 - the import alone gives TensorFlow 2.6 and later hdfs://

FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}
IS_CHIEF = os.environ["TFJOB_ROLE"] == "chief"


def parse(record):
    found = tf.io.parse_single_example(record, FEATURES)
    image = tf.reshape(tf.io.decode_raw(found["image"], tf.uint8), (64,))
    return tf.cast(image, tf.float32) / 16.0, found["label"]


def build_model():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(64, activation="relu", input_shape=(64,)),
            tf.keras.layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    return model


class Progress(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        step = {"step": epoch + 1, "total": self.params["epochs"], "unit": "epoch"}
        print("TFJOB_PROGRESS", json.dumps(step), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=20, help="in an epoch")
    options = parser.parse_args()

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    files = sorted(tf.io.gfile.glob(os.environ["TFJOB_INPUT_DATA"] + "/train-*.tfrecord"))
    print(f"{len(files)} files, the first is {files[0]}", flush=True)
    records = tf.data.TFRecordDataset(files).map(parse).shuffle(2048, seed=1).repeat().batch(96)
    with strategy.scope():
        model = build_model()

    callbacks = [
        tf.keras.callbacks.BackupAndRestore(os.environ["TFJOB_OUTPUT_CHECKPOINTS"]),
        Progress(),
    ]
    if IS_CHIEF:
        callbacks.append(
            tf.keras.callbacks.TensorBoard(os.environ["TFJOB_OUTPUT_EVENTS"], write_graph=False)
        )
    history = model.fit(
        records,
        epochs=options.epochs,
        steps_per_epoch=options.steps,
        callbacks=callbacks,
        verbose=0,
    )
    print(f"epochs of this run: {[epoch + 1 for epoch in history.epoch]}", flush=True)

    # Saving is collective: every task does it, and the chief's model is kept.
    model.save(os.environ["TFJOB_OUTPUT_MODEL"] if IS_CHIEF else "model-of-another-task")


if __name__ == "__main__":
    main()
