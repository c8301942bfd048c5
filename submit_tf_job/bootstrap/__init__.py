"""What runs inside every container before the training command. Standard library only, Python 3.7 and later, unpacked there."""
