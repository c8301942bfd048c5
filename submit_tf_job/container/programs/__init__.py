"""Programs that run in a container by themselves: a Python function, probes of a node and of an
image.
"""
