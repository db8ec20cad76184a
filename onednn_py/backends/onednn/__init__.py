"""The oneDNN backend: problems on oneDNN's primitives. Other rooms import this face.

``binding`` is the door to C, ``selection`` decides which of oneDNN's implementations, layouts and
formulations compute a problem, ``execution`` makes them ready to run, ``autotune`` measures them,
and ``wisdom`` remembers what was measured; the public module and the commands of wisdom import it,
too.
"""

from .autotune import DEFAULT_BUDGET, Measured
from .backend import OneDNNBackend, machine_here, recall
from .binding.library import Library, library, rejections
from .binding.remedy import headers_command
from .binding.runtime import apply_threads, openmp_path, reset_threads
from .selection.capabilities import GRAPH_FUNCTION, support
from .selection.defects import DEFECTS

__all__ = [
    "DEFAULT_BUDGET",
    "DEFECTS",
    "GRAPH_FUNCTION",
    "Library",
    "Measured",
    "OneDNNBackend",
    "apply_threads",
    "headers_command",
    "library",
    "machine_here",
    "openmp_path",
    "recall",
    "rejections",
    "reset_threads",
    "support",
]
