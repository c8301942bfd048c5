"""The Airflow provider: a connection, a hook, an operator, a trigger, a sensor and links.

It is a thin layer over `sdk` and `operations`. Nothing is imported here, because Airflow imports
`provider.py` in each of its processes.
"""
