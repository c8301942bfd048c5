"""Code that runs in every container before the training command (Python 3.5, standard library)."""
