"""How many threads a call uses, and how long idle threads of other libraries spin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from onednn_py import config
from onednn_py.backends.onednn import apply_threads, library, reset_threads
from onednn_py.config import IdleThreads, checked_threads, set_threads, use_threads
from onednn_py.errors import LibraryNotFoundError
from onednn_py.system import blas_threads as blas
from onednn_py.system import idle_threads, parallel

__all__ = ["get_num_threads", "num_threads", "set_idle_threads", "set_num_threads"]


def get_num_threads() -> int:
    """Return the number of threads that a call on this thread uses.

    Without a oneDNN library it is the number for NumPy's work. Always 1 in a forked child,
    and with a library that was built without threads.
    """
    try:
        return apply_threads(library())
    except LibraryNotFoundError:
        return parallel.current_threads()


def set_num_threads(number: int) -> None:
    """Use ``number`` threads for all calls of this process from now on.

    It is applied to oneDNN's OpenMP runtime on every thread that calls, to NumPy's BLAS,
    and to the threads that convert arrays; other users of OpenMP on those threads see the
    number, too. Without a call, OpenMP's own default stays untouched.

    Parameters
    ----------
    number : int
        From 1 to 1024.

    Raises
    ------
    AttributeValueError
        If it is no such integer.

    Examples
    --------
    >>> import onednn_py
    >>> onednn_py.set_num_threads(4)  # doctest: +SKIP
    """
    checked = checked_threads(number, "set_num_threads")
    set_threads(checked)
    blas.set_limit(checked)


def num_threads(number: int) -> AbstractContextManager[None]:
    """Use ``number`` threads for all calls inside the ``with`` block, in this context.

    At its end the calling thread gets back its previous number. Other threads keep their numbers,
    but NumPy's BLAS has a single number for the whole process.

    Parameters
    ----------
    number : int
        From 1 to 1024.

    Raises
    ------
    AttributeValueError
        If it is no such integer.

    Examples
    --------
    >>> import onednn_py
    >>> with onednn_py.num_threads(1):
    ...     onednn_py.get_num_threads()
    1
    """
    return _on_threads(checked_threads(number, "num_threads"))


@contextmanager
def _on_threads(number: int) -> Iterator[None]:
    try:
        with use_threads(number), blas.limited(number):
            yield
    finally:
        reset_threads()


def set_idle_threads(choice: IdleThreads) -> None:
    """Say what is done with idle threads of other libraries that spin, in this process.

    Idle workers of NumPy's BLAS keep the cores that oneDNN's threads need, for some 20 ms after
    each product. By default they are told to sleep earlier, at the first call on several threads
    at which that is safe. ``info()["idle_threads"]`` tells what was done.

    Parameters
    ----------
    choice : {"shorten", "leave"}
        ``"leave"`` changes nothing from now on, and undoes nothing. It takes precedence over the
        environment variable ``ONEDNN_PY_IDLE_THREADS``.

    Raises
    ------
    AttributeValueError
        If it is neither.

    Examples
    --------
    >>> import onednn_py
    >>> onednn_py.set_idle_threads("leave")  # doctest: +SKIP
    """
    config.set_idle_threads(choice)
    idle_threads.look_again()
