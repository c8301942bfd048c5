"""Train on data that tf.data service prepares: as its dispatcher, as one of its readers, or as the trainer."""

import os
import sys

import tensorflow as tf

service = tf.data.experimental.service


def dispatch() -> None:
    """Run the dispatcher until the job ends."""
    config = service.DispatcherConfig(port=int(os.environ["TFJOB_PORT"]))
    service.DispatchServer(config).join()


def read() -> None:
    """Run a reader until the job ends."""
    index, port = int(os.environ["TFJOB_INDEX"]), int(os.environ["TFJOB_PORT"])
    config = service.WorkerConfig(
        dispatcher_address=os.environ["TFJOB_HOSTS_DISPATCHER"],
        worker_address=os.environ["TFJOB_HOSTS_READER"].split(",")[index],
        port=port,
    )
    service.WorkerServer(config).join()


def train() -> None:
    """Fit a line; every element comes from a reader."""
    dispatcher = f"grpc://{os.environ['TFJOB_HOSTS_DISPATCHER']}"
    x = tf.random.stateless_uniform((1024, 1), (0, 1))
    data = tf.data.Dataset.from_tensor_slices((x, 3 * x + 1)).repeat(10).batch(64)
    data = data.apply(service.distribute(service.ShardingPolicy.DYNAMIC, dispatcher))
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.5), loss="mse")
    loss = model.fit(data, epochs=2, verbose=2).history["loss"][-1]
    print(f"loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    {"dispatch": dispatch, "read": read, "train": train}[sys.argv[1]]()
