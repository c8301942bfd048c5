"""Measurements, each a ratio to its own floor in the same run: `python -m tests.bench`, or `make
bench`.
"""
