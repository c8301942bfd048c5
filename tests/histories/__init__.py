"""Histories of submissions on a cluster that is worse than the client believes.

The world (`tests/world`) follows Hadoop's sources and uses nothing of
the client; the client is the real one, from `operations.submit.submit` down to `requests`. A seed decides
everything: `python -m tests.histories --class twin --seed 17` shows one history line by line.
"""
