"""Train on this task's own TFRecords with MultiWorkerMirroredStrategy; go on from the last checkpoint, if there is one.

Started by specs/tfrecord.yaml, whose inputs and outputs it finds in its environment:

    TFJOB_FILES_TRAIN         lists the training files of this task, which are on its disk
    TFJOB_INPUT_TEST          the file with the test data
    TFJOB_OUTPUT_CHECKPOINTS  where checkpoints go (hdfs://…); TensorFlow itself reads hdfs:// only with Java, so they are copied by fsspec
    TFJOB_OUTPUT_MODEL        a directory on this disk; what the chief leaves in it is stored when the job has succeeded
"""

import argparse
import json
import os
import re
import tempfile

import fsspec
import tensorflow as tf

FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}
IS_CHIEF = os.environ.get("TFJOB_ROLE", "chief") == "chief"


def parse(record):
    found = tf.io.parse_single_example(record, FEATURES)
    image = tf.reshape(tf.io.decode_raw(found["image"], tf.uint8), (8, 8, 1))
    return tf.cast(image, tf.float32) / 16.0, found["label"]


def records(files, batch):
    # Every task has files of its own, so that TensorFlow must not share them once more.
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    dataset = tf.data.TFRecordDataset(files, num_parallel_reads=len(files)).map(
        parse, num_parallel_calls=tf.data.AUTOTUNE
    )
    return (
        dataset.shuffle(4096, seed=1)
        .repeat()
        .batch(batch)
        .prefetch(tf.data.AUTOTUNE)
        .with_options(options)
    )


def build_model():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(16, 3, padding="same", activation="relu", input_shape=(8, 8, 1)),
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


class Checkpoints(tf.keras.callbacks.Callback):
    """A directory `epoch-N` on the file system after each epoch; it appears there as a whole, and the last two are kept."""

    def __init__(self, uri, checkpoint):
        super().__init__()
        self.fs, self.root = fsspec.core.url_to_fs(uri)
        self.checkpoint = checkpoint
        self.local = tempfile.mkdtemp()

    def epochs(self):
        if not self.fs.exists(self.root):
            return []
        names = [os.path.basename(name.rstrip("/")) for name in self.fs.ls(self.root, detail=False)]
        return sorted(int(name[6:]) for name in names if re.fullmatch(r"epoch-\d+", name))

    def restore(self):
        """Return the number of epochs that are done already; every task reads the same checkpoint."""
        done = self.epochs()
        if not done:
            return 0
        local = os.path.join(self.local, "restored")
        self.fs.get(f"{self.root}/epoch-{done[-1]}", local, recursive=True)
        self.checkpoint.read(os.path.join(local, "weights")).assert_consumed()
        return done[-1]

    def on_epoch_end(self, epoch, logs=None):
        # Saving is collective: every task does it, and the chief's copy is kept.
        local = os.path.join(self.local, f"epoch-{epoch + 1}")
        self.checkpoint.write(os.path.join(local, "weights"))
        if not IS_CHIEF:
            return
        temporary = f"{self.root}/.epoch-{epoch + 1}.tmp"
        if self.fs.exists(temporary):  # of a run that was killed
            self.fs.rm(temporary, recursive=True)
        self.fs.makedirs(temporary)
        for name in os.listdir(local):
            if os.path.isfile(os.path.join(local, name)):
                self.fs.put_file(os.path.join(local, name), f"{temporary}/{name}")
        self.fs.mv(temporary, f"{self.root}/epoch-{epoch + 1}")
        for old in self.epochs()[:-2]:
            self.fs.rm(f"{self.root}/epoch-{old}", recursive=True)


class Progress(tf.keras.callbacks.Callback):
    def __init__(self, epochs):
        super().__init__()
        self.epochs = epochs

    def on_epoch_end(self, epoch, logs=None):
        metrics = {name: round(float(value), 4) for name, value in (logs or {}).items()}
        print(
            "TFJOB_PROGRESS",
            json.dumps({"step": epoch + 1, "total": self.epochs, "metrics": metrics}),
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=20, help="in an epoch")
    parser.add_argument("--batch", type=int, default=64, help="of all tasks together")
    options = parser.parse_args()

    with open(os.environ["TFJOB_FILES_TRAIN"]) as listing:
        files = listing.read().splitlines()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = build_model()
        model.optimizer.build(
            model.trainable_variables
        )  # else its variables would not be there yet when a checkpoint is read
    checkpoints = Checkpoints(
        os.environ["TFJOB_OUTPUT_CHECKPOINTS"], tf.train.Checkpoint(model=model)
    )
    with strategy.scope():
        done = checkpoints.restore()
    print(
        f"{len(files)} files are this task's; {done} epochs of {options.epochs} are done already",
        flush=True,
    )
    callbacks = [Progress(options.epochs), checkpoints]
    model.fit(
        records(
            files, options.batch
        ),  # OFF: each task's batch is divided among its own replicas alone
        epochs=options.epochs,
        initial_epoch=done,
        steps_per_epoch=options.steps,
        callbacks=callbacks,
        verbose=0,
    )

    # Saving is collective, too; the directories of the other tasks are not stored.
    output = os.environ["TFJOB_OUTPUT_MODEL"]
    model.save(os.path.join(output, "model.keras"))
    if IS_CHIEF:
        alone = tf.keras.models.load_model(os.path.join(output, "model.keras"))
        test = tf.data.TFRecordDataset(os.environ["TFJOB_INPUT_TEST"]).map(parse).batch(256)
        accuracy = alone.evaluate(test, verbose=0, return_dict=True)["accuracy"]
        with open(os.path.join(output, "metrics.json"), "w") as file:
            json.dump(
                {
                    "epochs": options.epochs,
                    "resumed_from": done,
                    "test_accuracy": round(accuracy, 4),
                },
                file,
            )
        print(
            f"accuracy on unseen digits: {accuracy:.4f}; {done} epochs were there before",
            flush=True,
        )


if __name__ == "__main__":
    main()
