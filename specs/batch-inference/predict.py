"""Apply a model to this task's files: one CSV for each of them, with a row for each record.

TFJOB_INPUT_MODEL         the directory with the model
TFJOB_FILES_DATA          lists the files of this task
TFJOB_OUTPUT_PREDICTIONS  the directory for the results; it is stored when the command has succeeded
"""

import csv
import json
import os

import tensorflow as tf

FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(record):
    found = tf.io.parse_single_example(record, FEATURES)
    image = tf.reshape(tf.io.decode_raw(found["image"], tf.uint8), (8, 8, 1))
    return tf.cast(image, tf.float32) / 16.0, found["label"]


def main():
    model = tf.keras.models.load_model(os.path.join(os.environ["TFJOB_INPUT_MODEL"], "model.keras"))
    with open(os.environ["TFJOB_FILES_DATA"]) as listing:
        files = listing.read().splitlines()
    for number, path in enumerate(files):
        name = os.path.basename(path).replace(".tfrecord", ".csv")
        with open(
            os.path.join(os.environ["TFJOB_OUTPUT_PREDICTIONS"], name), "w", newline=""
        ) as out:
            writer = csv.writer(out)
            writer.writerow(["label", "predicted"])
            for images, labels in tf.data.TFRecordDataset(path).map(parse).batch(256):
                predicted = tf.argmax(model(images, training=False), axis=1)
                writer.writerows(zip(labels.numpy(), predicted.numpy(), strict=True))
        print("TFJOB_PROGRESS", json.dumps({"step": number + 1, "total": len(files)}), flush=True)
    print(f"{len(files)} files done", flush=True)


if __name__ == "__main__":
    main()
