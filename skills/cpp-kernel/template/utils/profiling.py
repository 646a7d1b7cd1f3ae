"""python3 -m utils.profiling: times the kernels beside eager PyTorch and torch.compile."""

import sys

from utils.request import main

if __name__ == "__main__":
    sys.exit(main("profile"))
