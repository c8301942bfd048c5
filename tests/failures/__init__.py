"""Programs that fail in the ways of the field, and how the cause of each is to be told."""
