"""Write scikit-learn's handwritten digits to a directory as TFRecords: python put_records.py hdfs:///data/digits-tfrecord [SHARDS]"""

import os
import sys
import tempfile

import fsspec
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits


def example(image, label):
    features = {
        "image": tf.train.Feature(
            bytes_list=tf.train.BytesList(value=[image.astype("uint8").tobytes()])
        ),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(label)])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def main():
    target, shards = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 6
    digits = load_digits()
    order = np.random.default_rng(7).permutation(len(digits.images))
    cut = len(order) * 4 // 5
    parts = {f"train-{shard:03}.tfrecord": order[:cut][shard::shards] for shard in range(shards)}
    parts["test.tfrecord"] = order[cut:]
    fs, root = fsspec.core.url_to_fs(target)
    fs.makedirs(root, exist_ok=True)
    for name, rows in parts.items():
        path = os.path.join(tempfile.mkdtemp(), name)
        with tf.io.TFRecordWriter(path) as writer:
            for row in rows:
                writer.write(example(digits.images[row], digits.target[row]))
        fs.put_file(path, f"{root}/{name}")
    print(
        f"{target}: {cut} digits to learn from in {shards} files, {len(order) - cut} to test with"
    )


if __name__ == "__main__":
    main()
