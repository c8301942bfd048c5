"""Run distributed TensorFlow on Hadoop: one job spec in, a YARN native service, a true verdict out."""

__version__ = "0.1.0"
