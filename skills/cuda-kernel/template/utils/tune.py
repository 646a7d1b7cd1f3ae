"""python3 -m utils.tune --arg NAME=0,1,2: times the kernels with each value of an integer constant.

NAME is defined once in kernels/ or model_new.py: `#define NAME 0`, `constexpr int NAME = 0;` or, in Python, `NAME = 0`.
The files stay as they are; put the value that you choose into them."""

import argparse
import sys

from utils.request import main


def parse(words):
    parser = argparse.ArgumentParser(prog="python3 -m utils.tune")
    parser.add_argument("--arg", required=True, metavar="NAME=0,1,2")
    name, found, values = parser.parse_args(words).arg.partition("=")
    try:
        numbers = [int(value) for value in values.split(",")]
    except ValueError:
        numbers = []
    if not found or not name.isidentifier() or not numbers:
        parser.error("--arg must be NAME=0,1,2: a name and whole numbers")
    return name, numbers


if __name__ == "__main__":
    name, values = parse(sys.argv[1:])
    sys.exit(main("tune", name=name, values=values, wait_s=60 * len(values) + 600))
