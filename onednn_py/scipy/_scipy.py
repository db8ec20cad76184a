"""What is used of SciPy, or the error that says how to install it."""

try:
    from scipy.sparse import issparse
    from scipy.sparse.linalg import LinearOperator
except ImportError as error:
    raise ImportError(
        'onednn_py.scipy needs SciPy: pip install "onednn_py[scipy]"', name="scipy"
    ) from error

__all__ = ["LinearOperator", "issparse"]
