"""The Airflow provider: a connection, a hook, an operator, a trigger, a sensor and links.

The provider is a thin layer over `sdk`. Nothing is imported here, because Airflow imports
`provider.py` in each of its processes.
"""
