"""The Python interface: a client, and Python functions as jobs."""
