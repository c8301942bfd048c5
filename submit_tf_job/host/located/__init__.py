"""The only reader of YAML, JSON and XML that users write.

A text becomes a tree whose values know their location.
"""
