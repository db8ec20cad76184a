"""Execute notebooks, each from the beginning in a kernel of its own; an exception is a failure.

usage: notebooks.py [--write] NOTEBOOK [NOTEBOOK ...]

With --write the outputs are put into the files, without what differs from run to run.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

# Seconds for one cell.
TIMEOUT = 600

METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def execute(path: Path) -> nbformat.NotebookNode:
    """Return the notebook with the outputs of a new run."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=TIMEOUT,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(path.parent)}},
    )
    return client.execute()


def tidied(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return the notebook without times and versions, and with what a cell printed in one piece."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        outputs: list[nbformat.NotebookNode] = []
        for output in cell.get("outputs", []):
            if "metadata" in output:
                output.metadata = nbformat.from_dict({})
            last = outputs[-1] if outputs else {}
            if output.output_type == "stream" and last.get("name") == output.name:
                last.text += output.text
            else:
                outputs.append(output)
        if "outputs" in cell:
            cell.outputs = outputs
    return notebook


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("notebooks", nargs="+", type=Path)
    options = parser.parse_args()
    failed = 0
    for path in options.notebooks:
        start = time.perf_counter()
        try:
            notebook = execute(path)
        except Exception as error:  # whatever one of them meets, the others are run
            print(f"{path}: FAILED\n{type(error).__name__}: {error}")
            failed += 1
            continue
        print(f"{path}: {time.perf_counter() - start:.1f} s")
        if options.write:
            nbformat.write(tidied(notebook), path)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
