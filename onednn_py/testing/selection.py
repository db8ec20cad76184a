"""Cases of suites, descriptors, batch files and ids."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from onednn_py import AttributeValueError
from onednn_py.errors import brief
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.batch import BatchProblem, Selection, named_operation, read_batch
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchdnn.options import (
    CHOICES,
    SYNONYMS,
    parse_choices,
    parse_minibatches,
    parse_tags,
)
from onednn_py.tools.benchdnn.suites import SUITES, suite_files

from .judgement import fit_to_limits

__all__ = ["cases"]

Source = str | os.PathLike[str]

DEFAULT_DIRECTIONS = ("FWD_D", "BWD_D", "BWD_W")
DEFAULT_DTYPES = ("f32",)
DEFAULT_FORMATS = ("NCX",)

OPERATIONS = ("conv", "deconv")


def cases(
    source: Source | Iterable[Source],
    *,
    directions: str | Sequence[str] = DEFAULT_DIRECTIONS,
    dtypes: str | Sequence[str] = DEFAULT_DTYPES,
    formats: str | Sequence[str] = DEFAULT_FORMATS,
    mb: int | None = None,
    max_flops: float | None = None,
) -> list[Case]:
    """Return the cases of a suite, a benchdnn descriptor, a batch file or an id, or of several.

    Parameters
    ----------
    source : str, path, or iterable of them
        The name of a suite (resnet50, mobilenet, unet, unet3d, wavenet, dcgan); a descriptor of
        benchdnn's such as ``"mb2ic16ih7oc24kh3ph1"``; the path of a batch file of benchdnn's; or
        the ``id`` of a case. Descriptors and batch files are of convolutions; those of transposed
        ones have ``deconv:`` in front. A batch file that has ``deconv`` in its name or its folder's
        needs no prefix.
    directions : str or sequence of {"FWD_D", "FWD_B", "BWD_D", "BWD_W", "BWD_WB"}
        Forward, data gradient, weights gradient; ``B`` is with bias.
    dtypes : str or sequence of {"f32", "bf16", "f16"}
    formats : str or sequence of {"NCX", "NXC"}
        Of the data; the weights are OIX (IOX if transposed) with NCX, XIO (XOI) with NXC.
    mb : int, optional
        Minibatch in place of the descriptors' own; 0 keeps that.
    max_flops : float, optional
        A case that takes more floating-point operations has minibatch 1, or is left out if it takes
        more even then.

    Options that a batch file or an id sets go before the defaults, and what a caller gives goes
    before both.

    Returns
    -------
    list of Case
        Each case once, in the order of the sources.

    Raises
    ------
    AttributeValueError
        If a source is none of these, or a value is unknown; also if there is an error in a batch
        file, with its line.

    Examples
    --------
    >>> from onednn_py.testing import cases
    >>> for case in cases(["ic16ih7oc24kh3ph1", "deconv:ic8iw5oc6kw3"], directions="BWD_D", mb=1):
    ...     print(case)
    --conv --dir=BWD_D --dt=f32 --stag=abx --dtag=abx mb1ic16ih7oc24oh7kh3ph1
    --deconv --dir=BWD_D --dt=f32 --stag=abx --dtag=abx mb1ic8iw5oc6ow7kw3pw0
    >>> len(cases("resnet50", dtypes=("f32", "bf16"))) == 2 * len(cases("resnet50"))
    True

    As parameters of a test, cases show their ids::

        @pytest.mark.parametrize("case", cases("resnet50", mb=1))
        def test_kernel(case):
            assert_matches(kernel, case)
    """
    if isinstance(mb, bool) or not (mb is None or isinstance(mb, Integral)) or (mb or 0) < 0:
        raise AttributeValueError(f"cases: mb: expected an integer of at least 0, got {brief(mb)}")
    limit: Any = inf if max_flops is None else max_flops
    is_number = isinstance(limit, Real) and not isinstance(limit, bool)
    if not is_number or not limit > 0:
        raise AttributeValueError(
            f"cases: max_flops: expected a positive number, got {brief(max_flops)}"
        )
    # A default that nobody gave is told from an equal tuple by its identity.
    selection = Selection(
        DEFAULT_DIRECTIONS,
        directions=_given("directions", "dir", directions, DEFAULT_DIRECTIONS),
        dtypes=_given("dtypes", "dt", dtypes, DEFAULT_DTYPES),
        formats=_given("formats", "format", formats, DEFAULT_FORMATS),
        minibatch=None if mb is None else int(mb),
        default_dtypes=DEFAULT_DTYPES,
        default_formats=DEFAULT_FORMATS,
    )
    found = (
        case
        for one in _sources(source)
        for problem in _problems(one)
        for case in problem.cases(selection)
    )
    if max_flops is None:
        return list(dict.fromkeys(found))
    fitted = (fit_to_limits(case, limit) for case in found)
    return list(dict.fromkeys(case for case, reason in fitted if not reason))


def _given(argument: str, option: str, values: Any, default: object) -> tuple[str, ...] | None:
    """Return the checked values of an argument, None if it is the default."""
    if values is default:
        return None
    accepted = CHOICES[option]
    words = [values] if isinstance(values, str) else values
    checked = []
    for word in words if isinstance(words, Iterable) else [words]:
        if isinstance(word, str):
            known = word.lower() if option == "dt" else word.upper()
            known = SYNONYMS.get(known, known)
            if known in accepted:
                checked.append(known)
                continue
        raise AttributeValueError(
            f"cases: {argument}: expected some of {', '.join(accepted)}; got {brief(word)}"
        )
    if not checked:
        raise AttributeValueError(
            f"cases: {argument}: expected some of {', '.join(accepted)}; got none"
        )
    return tuple(dict.fromkeys(checked))


def _sources(source: Any) -> list[str | Path]:
    if isinstance(source, str):
        return [source]
    if isinstance(source, os.PathLike):
        return [Path(source)]
    if isinstance(source, Iterable):
        return [one for several in source for one in _sources_of_item(several)]
    raise AttributeValueError(f"cases: source: expected texts or paths, got {brief(source)}")


def _sources_of_item(item: Any) -> list[str | Path]:
    if not isinstance(item, (str, os.PathLike)):
        raise AttributeValueError(
            f"cases: source: expected texts or paths, got {brief(item)} among them"
        )
    return _sources(item)


def _problems(source: str | Path) -> Sequence[BatchProblem]:
    operation = None
    if isinstance(source, str):
        source = source.strip()
        if source.startswith("--"):
            return _problems_of_id(source)
        if source.lower() in SUITES:
            files = suite_files(source.lower())
            return [problem for name, path in files for problem in _problems_of_file(path, name)]
        prefix, colon, rest = source.partition(":")
        if colon and prefix.lower() in OPERATIONS:
            operation, source = prefix.lower(), rest
        if not _is_file(source):
            return [_problem(source, operation)]
    return _problems_of_file(Path(source), operation)


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a path, or with a null character
        return False


def _problem(text: str, operation: str | None) -> BatchProblem:
    try:
        return BatchProblem(parse_descriptor(text, transposed=operation == "deconv"))
    except AttributeValueError as error:
        raise AttributeValueError(
            f"cases: {brief(text)} is no suite ({', '.join(SUITES)}), no file, and no descriptor:"
            f" {error}"
        ) from None


def _problems_of_file(path: Path, operation: str | None) -> Sequence[BatchProblem]:
    transposed = (operation or named_operation(path)) == "deconv"
    return read_batch(path, transposed=transposed).problems


def _problems_of_id(text: str) -> list[BatchProblem]:
    """Return the problems of a command line of benchdnn's, with its options."""
    operation: str | None = None
    options: dict[str, Any] = {}
    descriptors = []
    try:
        for word in shlex.split(text):
            option, equals, value = word.removeprefix("--").partition("=")
            if not word.startswith("--"):
                if operation is None:
                    raise AttributeValueError(f"{word}: expected --conv or --deconv before it")
                descriptors.append(parse_descriptor(word, transposed=operation == "deconv"))
            elif option in OPERATIONS and not equals:
                operation = option
            elif option in READERS:
                name, read = READERS[option]
                values = read(value)
                if options.setdefault(name, values) != values:
                    one = "src and dst have one format" if name == "formats" else "given twice"
                    raise AttributeValueError(f"{word}: {one}")
                if descriptors:
                    raise AttributeValueError(
                        f"{word}: expected before the descriptors, which have all options in common"
                    )
            else:
                listed = ", ".join(f"--{name}" for name in (*OPERATIONS, *READERS))
                raise AttributeValueError(f"{word}: expected some of {listed}")
    except ValueError as error:  # AttributeValueError, or a quotation mark without its pair
        raise AttributeValueError(f"cases: {text[:200]}: {error}") from None
    if not descriptors:
        raise AttributeValueError(f"cases: {text[:200]}: no descriptor")
    minibatches = options.pop("minibatches", (None,))
    return [
        replace(BatchProblem(descriptor, minibatch=minibatch), **options)
        for descriptor in descriptors
        for minibatch in minibatches
    ]


def _directions(text: str) -> tuple[str, ...]:
    return parse_choices("dir", text)


def _dtypes(text: str) -> tuple[str, ...]:
    return parse_choices("dt", text)


def _formats(text: str) -> tuple[str, ...]:
    return parse_choices("format", text)


# By benchdnn's option: what BatchProblem calls it, and what reads its value.
READERS: dict[str, tuple[str, Any]] = {
    "dir": ("directions", _directions),
    "dt": ("dtypes", _dtypes),
    "stag": ("formats", parse_tags),
    "dtag": ("formats", parse_tags),
    "format": ("formats", _formats),
    "mb": ("minibatches", parse_minibatches),
}
