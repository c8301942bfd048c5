"""Fit a line under ParameterServerStrategy: the same program is coordinator, worker and parameter server.

Where CHECKPOINTS names a directory, the coordinator saves there every ten steps, and continues from the last checkpoint.
"""

import json
import os
import sys

import tensorflow as tf

STEPS = int(os.environ.get("STEPS", "60"))
CHECKPOINTS = os.environ.get("CHECKPOINTS")


def serve(resolver):
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol="grpc",
    )
    server.join()  # for ever: submit_tf_job ends it when the chief is done


def coordinate(resolver):
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable([0.0, 0.0])
        done = tf.Variable(0, dtype=tf.int64)
    manager = None
    if CHECKPOINTS:
        manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(weights=weights, done=done), CHECKPOINTS, max_to_keep=2
        )
        manager.restore_or_initialize()
        print(f"from step {int(done)}", flush=True)

    def dataset():
        x = tf.random.stateless_uniform([1024], seed=[1, 2], minval=-1.0, maxval=1.0)
        return tf.data.Dataset.from_tensor_slices((x, 3.0 * x + 1.0)).repeat().batch(64)

    @tf.function
    def step(iterator):
        def replica(batch):
            x, y = batch
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((weights[0] * x + weights[1] - y) ** 2)
            weights.assign_sub(0.2 * tape.gradient(loss, weights))
            return loss

        return strategy.run(replica, args=(next(iterator),))

    iterator = iter(coordinator.create_per_worker_dataset(dataset))
    loss = 0.0  # where the last step is done already
    progress = os.environ.get("TFJOB_PROGRESS_FILE")
    for number in range(int(done), STEPS, 10):
        results = [coordinator.schedule(step, args=(iterator,)) for _ in range(10)]
        coordinator.join()
        loss = min(float(coordinator.fetch(result)) for result in results)
        print(f"step {number + 10}: loss {loss:.5f}", flush=True)
        done.assign(number + 10)
        if manager:
            manager.save()
        if progress:
            with open(progress + ".new", "w") as file:
                json.dump({"step": number + 10, "total": STEPS, "metrics": {"loss": loss}}, file)
            os.replace(progress + ".new", progress)
    assert loss < 0.1, loss


resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    serve(resolver)
else:
    coordinate(resolver)
    # Not through the end of the interpreter: it frees TensorFlow's native context, and does not wait for the coordinator's threads,
    # which use that (a TODO of cluster_coordinator.py says so). Everything is stored.
    sys.stdout.flush()
    os._exit(0)
