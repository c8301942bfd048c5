"""What is shown: JSON objects of `-o json`, lines of the text form. Builds values, prints nothing."""
