"""Write scikit-learn's handwritten digits (1,797 images of 8 x 8 points) to a file: python put_digits.py hdfs:///data/digits.npz"""

import io
import sys

import fsspec
import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
buffer = io.BytesIO()
np.savez_compressed(buffer, images=digits.images, labels=digits.target)
with fsspec.open(sys.argv[1], "wb") as file:
    file.write(buffer.getvalue())
print(f"{sys.argv[1]}: {len(digits.images)} images")
