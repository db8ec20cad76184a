"""Values of benchdnn's options ``--dir``, ``--dt``, ``--mb`` and its tags, and of ``--format``."""

from __future__ import annotations

from onednn_py import AttributeValueError

from .case import DATA_FORMATS, DIRECTIONS, TAGS
from .descriptor import INT64_MAX

__all__ = ["CHOICES", "parse_choices", "parse_minibatches", "parse_tags"]

CHOICES = {
    "dir": tuple(DIRECTIONS),
    "dt": ("f32", "bf16", "f16"),
    "format": DATA_FORMATS,
    "tag": tuple(TAGS.values()),
}

# benchdnn's forward inference runs the same computation as its forward training.
SYNONYMS = {"FWD_I": "FWD_D"}


def parse_choices(option: str, text: str) -> tuple[str, ...]:
    """Return the distinct values of ``--dir=FWD_B,BWD_D``, ``--dt=f32`` or ``--format=NCX``.

    A data type may be given for each tensor of a call, as in ``--dt=bf16:bf16:bf16``, but must
    be the same for all.

    Raises
    ------
    AttributeValueError
        Naming the unknown value.
    """
    values: list[str] = []
    for word in (text.lower() if option in ("dt", "tag") else text.upper()).split(","):
        value = _common_dtype(word) if option == "dt" else SYNONYMS.get(word, word)
        if value not in CHOICES[option]:
            accepted = ", ".join(CHOICES[option])
            raise AttributeValueError(
                f"--{option}={text}: expected some of {accepted}; got {word!r}"
            )
        values.append(value)
    return tuple(dict.fromkeys(values))


def parse_tags(text: str) -> tuple[str, ...]:
    """Return the formats of benchdnn's ``--stag`` or ``--dtag``: NCX for abx, NXC for axb.

    Raises
    ------
    AttributeValueError
        Naming another tag.
    """
    formats = {tag: name for name, tag in TAGS.items()}
    return tuple(formats[tag] for tag in parse_choices("tag", text))


def _common_dtype(word: str) -> str:
    dtypes = set(word.split(":"))
    return dtypes.pop() if len(dtypes) == 1 else ""


def parse_minibatches(text: str) -> tuple[int, ...]:
    """Return the minibatches of ``--mb=2,16``; 0 stands for the descriptor's own.

    Raises
    ------
    AttributeValueError
        Naming the text that is not an integer of at least 0.
    """
    for word in text.split(","):
        if not (word.isascii() and word.isdigit() and len(word) <= len(str(INT64_MAX))):
            raise AttributeValueError(f"--mb={text}: expected integers of at least 0, got {word!r}")
    return tuple(map(int, text.split(",")))
