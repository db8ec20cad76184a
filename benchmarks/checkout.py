"""Imported first: scripts measure the package beside them, whichever is installed."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def existing_file(text: str) -> Path:
    """Return the path of an option that names a file to read."""
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return path
