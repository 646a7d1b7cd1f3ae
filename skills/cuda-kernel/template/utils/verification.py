"""python3 -m utils.verification: builds kernels/ and compares the outputs with those of model.py."""

import sys

from utils.request import main

if __name__ == "__main__":
    sys.exit(main("verify"))
