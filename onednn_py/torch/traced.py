"""Calls that `torch.jit.trace` records, whose values and places are named after the program."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

__all__ = ["call_within"]

# As the variables of no program are called, which are looked up first.
_CALL, _INNER = "__onednn_py_call__", "__onednn_py_inner__"

_INNER_CODE = compile(f"{_CALL}()", "", "eval")
_OUTER_CODE = compile(f"__builtins__['eval'](*{_INNER})", "", "eval")


def call_within(frame: FrameType, function: Callable[[], Any]) -> Any:
    """Return ``function()``, called by frames that look like those of the program.

    The tracer names a value after the variable that refers to it, in the frame that calls the
    operation (`torch.jit.trace`) or in that frame's caller (exporters to ONNX), and notes the
    file and line of the call. A kernel in Python has frames of its own between both. So the call
    goes through two frames more that have the variables and places of the program's.

    Parameters
    ----------
    frame : frame
        Of the program, which called the operation.
    function : callable
        Written in C, since a Python function has a frame of its own; without arguments.
    """
    inner = (_placed(_INNER_CODE, frame), {_CALL: function}, frame.f_locals)
    caller = frame.f_back or frame
    return eval(_placed(_OUTER_CODE, caller), {_INNER: inner}, caller.f_locals)


def _placed(code: CodeType, frame: FrameType) -> CodeType:
    """Return code that says that it stands where a frame is."""
    place = frame.f_code
    return code.replace(
        co_filename=place.co_filename, co_name=place.co_name, co_firstlineno=frame.f_lineno
    )
