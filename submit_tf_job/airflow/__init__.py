"""Airflow's door: a connection, a hook, an operator, a trigger, a sensor and links. Thin over `sdk` and `api`.

Nothing is imported here, because Airflow reads `provider.py` in every one of its processes.
"""
