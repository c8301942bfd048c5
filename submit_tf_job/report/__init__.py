"""Text for a terminal, and the objects of `-o json`. Returns values, prints nothing."""
