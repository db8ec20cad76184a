"""benchdnn's batch files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onednn_py import AttributeValueError
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.batch import BatchProblem, read_batch

BATCH = """# a comment
ic8iw5oc8kw3   # and another
--reset --dt=bf16,u8:s8:f32 --dir=FWD_I,BWD_D
--mb=4,0 --attr-post-ops=relu --skip-impl=ref

ic8iw6oc8kw3 ic8iw7\\
oc8kw3_n"joined"
--batch=included
ic8iw8oc8kw3
--reset ic8iw9oc8kw3
"""


def test_batch_file(tmp_path: Path) -> None:
    (tmp_path / "batch").write_text(BATCH)
    (tmp_path / "included").write_text("--dir=BWD_W\nmb3ic8iw4oc8kw3\n")
    batch = read_batch(tmp_path / "batch", transposed=False)

    def problem(text: str, *options: object) -> BatchProblem:
        return BatchProblem(parse_descriptor(text), *options)

    data, weights = (("FWD_D", "BWD_D"), ("bf16",)), (("BWD_W",), ("bf16",))
    assert list(batch.problems) == [
        problem("ic8iw5oc8kw3"),
        problem("ic8iw6oc8kw3", *data, 4),
        problem("ic8iw6oc8kw3", *data, 0),
        problem("ic8iw7oc8kw3njoined", *data, 4),
        problem("ic8iw7oc8kw3njoined", *data, 0),
        problem("mb3ic8iw4oc8kw3", *weights, 4),
        problem("mb3ic8iw4oc8kw3", *weights, 0),
        # As in benchdnn, options set in an included file remain set after it.
        problem("ic8iw8oc8kw3", *weights, 4),
        problem("ic8iw8oc8kw3", *weights, 0),
        problem("ic8iw9oc8kw3"),
    ]
    path = tmp_path / "batch"
    assert batch.notes == (
        f"{path}: left out what is of type u8:s8:f32",
        f"{path}: ignored --attr-post-ops",
        f"{path}: ignored --skip-impl",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ic8iw5oc8kw3\nic8\n", "batch:2: conv descriptor 'ic8': oc is missing"),
        ("--dir=BWD_X", "batch:1: --dir=BWD_X: expected some of FWD_D"),
        ("--mb=-1", "batch:1: --mb=-1: expected integers"),
        ("--batch=nowhere", "batch:1: nowhere: cannot be read"),
        ("--batch=batch", "includes itself"),
        ('ic8iw9oc8kw3n"a name"', 'batch:1: ic8iw9oc8kw3n"a: a name has no white space'),
    ],
)
def test_batch_errors_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "batch").write_text(text)
    with pytest.raises(AttributeValueError, match=re.escape(message)):
        read_batch(tmp_path / "batch", transposed=False)


def test_unreadable_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "binary", tmp_path, tmp_path / "nowhere"):
        with pytest.raises(AttributeValueError, match="cannot be read"):
            read_batch(path, transposed=True)
