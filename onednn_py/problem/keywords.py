"""What the keywords of PyTorch, Keras, JAX, ONNX and oneDNN's C API are called here, for errors."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from onednn_py.errors import SignatureError, brief

__all__ = ["refuse_keywords", "translated"]

_PADS = ("pads_begin and pads_end", "auto_pad")
_WEIGHTS = ("weights", "filter", "weights_shape")
_DIFF_DST = ("diff_dst", "output_delta")
_DST_SHAPE = ("dst_shape", "output_shape", "output_padding")
_FORMATS = ("data_format and weights_format", "data_format and filter_format")

# For each keyword what says the same here, the likeliest first; a function has some of them.
_OURS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("padding", "pad", "pads", "paddings"), _PADS),
    **{"padding_l": ("pads_begin",), "padding_r": ("pads_end",)},
    **dict.fromkeys(("stride", "window_strides", "subsample"), ("strides",)),
    **dict.fromkeys(
        ("dilation", "dilates", "dilation_rate", "rhs_dilation", "kernel_dilation"), ("dilations",)
    ),
    **dict.fromkeys(("group", "feature_group_count", "num_groups"), ("groups",)),
    **dict.fromkeys(("dimension_numbers", "layout", "memory_format"), _FORMATS),
    **dict.fromkeys(("kernel_layout", "weight_format"), ("weights_format", "filter_format")),
    **dict.fromkeys(("input", "inputs", "x", "X", "lhs"), ("src", *_DIFF_DST)),
    **dict.fromkeys(("weight", "W", "w", "kernel", "filters", "rhs"), _WEIGHTS),
    **dict.fromkeys(("b", "B", "use_bias"), ("bias",)),
    **dict.fromkeys(("grad_output", "out_backprop", "dy", "gradient"), _DIFF_DST),
    **dict.fromkeys(("output_size", "output_shape", "input_size", "input_sizes"), _DST_SHAPE),
    **dict.fromkeys(("weight_size", "filter_sizes"), ("weights_shape",)),
    **dict.fromkeys(("precision", "allow_tf32"), ("fpmath_mode",)),
    "output_mask": ("wrt",),
    "lhs_dilation": ("strides of conv_transpose",),
}

# Keywords that mean something here, but are no keyword.
_WITHOUT_KEYWORD = {
    "padding_mode": "padding is with zeros here; for another mode, numpy.pad comes first",
}

# Keywords of functions that ask for gradients by their names.
_BIAS = ("bias", "b", "B", "use_bias")

# From here on a keyword is taken for a misspelt one: "padding_mode" is not "fpmath_mode".
LEAST_LIKENESS = 0.75

# Keywords that nothing here corresponds to, since the arrays say it.
_BY_SHAPES = ("kernel_size", "kernel_shape", "in_channels", "out_channels")


def refuse_keywords(function: str, keywords: Iterable[str], accepted: Collection[str]) -> None:
    """Raise an error for keywords that a function does not have, naming those that it has.

    Parameters
    ----------
    function : str
        The function's name.
    keywords : iterable of str
        The first few are named.
    accepted : collection of str
        The function's own.

    Raises
    ------
    SignatureError
    """
    said = [f"{brief(name)}: {translated(name, accepted)}" for name in keywords][:3]
    raise SignatureError(f"{function}() got an unexpected keyword argument {'; '.join(said)}")


def translated(keyword: object, accepted: Collection[str]) -> str:
    """Return what a message says of a keyword that is not accepted."""
    if not isinstance(keyword, str):
        return "names are strings"
    if keyword in _BY_SHAPES:
        return "the shape of the weights says that"
    if keyword in _WITHOUT_KEYWORD:
        return _WITHOUT_KEYWORD[keyword]
    ours = [
        one
        for one in _OURS.get(keyword, ())
        if " of " in one or all(name in accepted for name in one.split(" and "))
    ]
    if ours == ["output_padding"]:
        return "here the shape of dst follows from the pads and output_padding"
    if ours:
        return f"here that is {' or '.join(ours)}"
    if keyword in _BIAS and "wrt" in accepted:
        return 'here wrt names it, as in wrt=("src", "weights", "bias")'
    if alike := get_close_matches(keyword[:40], accepted, n=1, cutoff=LEAST_LIKENESS):
        return f"did you mean {alike[0]}?"
    return f"the keywords are {', '.join(accepted)}"
