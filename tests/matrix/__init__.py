"""Every Hadoop version and every Python version that the package claims: `python -m tests.matrix`,
or `make matrix`.
"""
