"""A worker process: ``python -m onednn_py.tools.benchmark RUNNER``, driven over pipes."""

import os
import sys

from .runners import RUNNERS
from .worker import serve
from .worker_requests import requests_from

if __name__ == "__main__":
    # Whatever a library prints goes to the standard error, not among the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(RUNNERS[sys.argv[1]], requests_from(sys.stdin), answers)
