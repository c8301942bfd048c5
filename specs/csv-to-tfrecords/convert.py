"""Turn this task's share of CSV or Parquet files into TFRecords, one file for each: python convert.py age=float name=text …

Started by specs/csv-to-tfrecords.yaml, whose inputs and outputs it finds in its environment. A missing value is left out of its example.
"""

import csv
import os
import sys

import tensorflow as tf


def rows(path):
    if path.endswith(".parquet"):
        import pyarrow.parquet

        for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
        return
    with open(path, newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def feature(value, kind):
    if kind == "float":
        return tf.train.Feature(float_list=tf.train.FloatList(value=[float(value)]))
    if kind == "int":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value)]))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[str(value).encode()]))


def main():
    columns = dict(word.split("=") for word in sys.argv[1:])
    target = os.environ["TFJOB_OUTPUT_RECORDS"]
    with open(os.environ["TFJOB_FILES_TABLES"], encoding="utf-8") as file:
        paths = file.read().splitlines()
    for path in paths:
        name, count = os.path.splitext(os.path.basename(path))[0], 0
        with tf.io.TFRecordWriter(os.path.join(target, f"{name}.tfrecord")) as writer:
            for row in rows(path):
                count += 1
                known = {key: row[key] for key in columns if row[key] not in ("", None)}
                features = {key: feature(value, columns[key]) for key, value in known.items()}
                made = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(made.SerializeToString())
        print(f"{path}: {count} rows", flush=True)


if __name__ == "__main__":
    main()
