"""Code that runs in every container before the training command (Python 3.6, standard library)."""
