"""The one reader of YAML, JSON and XML: a text becomes a tree whose values know their location."""
