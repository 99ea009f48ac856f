"""The command ``python -m hafvf``, which prints the version."""

import argparse

from . import __version__

parser = argparse.ArgumentParser(
    "python -m hafvf", description="hafvf is a package: import hafvf; help(hafvf) lists its functions."
)
parser.add_argument("--version", action="version", version=f"hafvf {__version__}")
parser.parse_args()
parser.print_help()
