"""Checks of a machine, a cluster and an image."""
