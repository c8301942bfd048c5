"""Code that runs in every container before and beside the training command (Python 3.6, standard
library). The client uses some of its modules, too.
"""
