"""SciPy's base class, or the error that says how to install SciPy."""

try:
    from scipy.sparse.linalg import LinearOperator
except ImportError as error:
    raise ImportError(
        'onednn_py.scipy needs SciPy: pip install "onednn_py[scipy]"', name="scipy"
    ) from error

__all__ = ["LinearOperator"]
