"""Fit a line with Horovod and TensorFlow 2."""

import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
print(f"rank {hvd.rank()} of {hvd.size()}", flush=True)
tf.random.set_seed(hvd.rank())
weight, bias = tf.Variable(0.0), tf.Variable(0.0)
hvd.broadcast_variables([weight, bias], root_rank=0)
for _ in range(100):
    x = tf.random.uniform((64,))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((weight * x + bias - (3 * x + 1)) ** 2)
    for variable, gradient in zip((weight, bias), tape.gradient(loss, [weight, bias]), strict=True):
        variable.assign_sub(0.3 * hvd.allreduce(gradient))
total = hvd.allreduce(loss)
if hvd.rank() == 0:
    print(f"loss {total.numpy():.4f}", flush=True)
