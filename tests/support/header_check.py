"""Checks the declarations in ``cdefs/`` against the real oneDNN headers, with a C compiler.

In ABI mode, cffi does not check declarations: a wrong enum value or a missing argument causes
wrong results or crashes. Therefore the declarations are translated to C that includes the real
headers and compiles only if both agree.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pycparser import c_ast, c_generator, c_parser

from onednn_py.backends.onednn.binding.declarations import AREAS, declarations_folder

__all__ = [
    "DNNL_AREAS",
    "DNNL_HEADER",
    "OPENMP_AREA",
    "OPENMP_HEADER",
    "assertions",
    "compile_errors",
    "compiler",
    "function_names",
    "include_folders",
    "read_areas",
]

OPENMP_AREA = "openmp"
DNNL_AREAS = tuple(area for area in AREAS if area != OPENMP_AREA)
DNNL_HEADER = "oneapi/dnnl/dnnl.h"
OPENMP_HEADER = "omp.h"

_PREAMBLE_FILE = "preamble"
# pycparser only has to know that these names are types; the generated C takes their definitions
# from stddef.h and stdint.h.
_STANDARD_TYPES = (
    "size_t",
    *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
_PREAMBLE = "".join(f"typedef int {name};" for name in _STANDARD_TYPES)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DEFINE = re.compile(r"#\s*define\s+(\w+)\s+(.+)")


def read_areas(areas: Sequence[str]) -> dict[str, str]:
    """Return the text of each ``cdefs/<area>.h``, in the order given."""
    folder = declarations_folder()
    return {area: (folder / f"{area}.h").read_text(encoding="utf-8") for area in areas}


def compiler() -> str | None:
    """Return the path of the C compiler, ``CC`` or ``cc``, or None if there is none."""
    return shutil.which(os.environ.get("CC", "cc"))


@functools.cache
def include_folders() -> tuple[str, ...] | None:
    """Return the include folders of oneDNN v3's headers, or None if there are no headers.

    ``ONEDNN_PY_TEST_INCLUDE`` (folders separated as in ``PATH``) takes precedence over the
    headers of this environment, and these over the compiler's.
    """
    chosen = os.environ.get("ONEDNN_PY_TEST_INCLUDE")
    if chosen:
        return tuple(chosen.split(os.pathsep))
    probe = (
        f"#include <{DNNL_HEADER}>\n#include <oneapi/dnnl/dnnl_version.h>\n"
        '_Static_assert(DNNL_VERSION_MAJOR == 3, "oneDNN v3");\n'
    )
    candidates: tuple[tuple[str, ...], ...] = ((str(Path(sys.prefix, "include")),), ())
    return next((folders for folders in candidates if not _compile(probe, folders)), None)


def compile_errors(
    texts: Mapping[str, str], header: str = DNNL_HEADER, folders: Sequence[str] = ()
) -> str:
    """Return the compiler's errors about the declarations; empty if they are right.

    Parameters
    ----------
    texts : mapping of str to str
        Declarations by area, each after those that it depends on.
    header : str
        The real header, as an ``#include`` names it.
    folders : sequence of str
        Include folders.
    """
    return _compile(assertions(texts, header), folders)


def assertions(texts: Mapping[str, str], header: str) -> str:
    """Return the C source that compiles only if the declarations agree with ``header``."""
    lines = [f"#include <{header}>", "#include <stddef.h>", "#include <stdint.h>"]
    for area, text in texts.items():
        for number, name, value in _defines(text):
            lines += [_line_directive(number, area), _static_assert(f"{name} == ({value})", name)]
    for node in _declarations(texts):
        lines += [_line_directive(node.coord.line, node.coord.file), *_checks(node)]
    return "\n".join(lines) + "\n"


def function_names(texts: Mapping[str, str]) -> list[str]:
    """Return the names of the declared functions."""
    return [node.name for node in _declarations(texts) if isinstance(node.type, c_ast.FuncDecl)]


def _compile(source: str, folders: Sequence[str]) -> str:
    command = [compiler() or "cc", "-std=c11", "-fsyntax-only", "-Werror"]
    command += ["-Wmissing-field-initializers", *(f"-I{folder}" for folder in folders)]
    completed = subprocess.run(
        [*command, "-x", "c", "-"],
        input=source,
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
        timeout=60,
    )
    if completed.returncode == 0:
        return ""
    return completed.stderr or f"{command[0]} exited with status {completed.returncode}"


def _declarations(texts: Mapping[str, str]) -> list[c_ast.Node]:
    parts = [f'#line 1 "{_PREAMBLE_FILE}"', _PREAMBLE]
    for area, text in texts.items():
        parts += [f'#line 1 "{area}"', _without_directives(text)]
    tree = c_parser.CParser().parse("\n".join(parts), filename=_PREAMBLE_FILE)
    return [node for node in tree.ext if node.coord.file != _PREAMBLE_FILE]


def _without_comments(text: str) -> str:
    return _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)


def _without_directives(text: str) -> str:
    """Blank comments and ``#define`` lines, which pycparser rejects, keeping line numbers."""
    text = _without_comments(text)
    return "\n".join("" if line.lstrip().startswith("#") else line for line in text.split("\n"))


def _defines(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line number, name and value of each macro; reject any other directive."""
    for number, line in enumerate(_without_comments(text).split("\n"), start=1):
        if line.lstrip().startswith("#"):
            define = _DEFINE.fullmatch(line.strip())
            if define is None:
                raise ValueError(f"line {number}: only '#define NAME value' is known: {line!r}")
            yield number, define[1], define[2]


def _checks(node: c_ast.Node) -> list[str]:
    if isinstance(node, c_ast.Typedef):
        declared = getattr(node.type, "type", None)
        if isinstance(declared, c_ast.Enum) and declared.values is not None:
            return _enum_checks(node.name, declared)
        if isinstance(declared, c_ast.Struct) and declared.decls is not None:
            return _struct_checks(node.name, declared)
        return _redeclaration(node, f"sizeof({node.name}) != 0")
    if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
        return _redeclaration(node, f"sizeof(&{node.name}) != 0")
    raise ValueError(f"{node.coord}: no check is known for {_as_c(node)!r}")


def _redeclaration(node: c_ast.Node, use: str) -> list[str]:
    # A declaration of a name that the header lacks compiles, but not a use before it.
    return [_static_assert(use, node.name), f"{_as_c(node)};"]


def _enum_checks(name: str, enum: c_ast.Enum) -> list[str]:
    checks, copied, value = [], [], "-1"
    for member in enum.values.enumerators:
        value = _as_c(member.value) if member.value is not None else f"({value}) + 1"
        copied.append(f"declared_{member.name} = {value}")
        checks += [
            _line_directive(member.coord.line, member.coord.file),
            _static_assert(f"{member.name} == ({value})", member.name),
        ]
    # The compiler chooses the integer type of an enum by its values, and so does cffi.
    copy = f"declared_{name}"
    return [
        *checks,
        f"typedef enum {{ {', '.join(copied)} }} {copy};",
        _static_assert(f"sizeof({name}) == sizeof({copy})", f"size of {name}"),
        _static_assert(f"(({name})-1 < 0) == (({copy})-1 < 0)", f"sign of {name}"),
    ]


def _struct_checks(name: str, struct: c_ast.Struct) -> list[str]:
    copy = f"declared_{name}"
    fields = " ".join(f"{_as_c(field)};" for field in struct.decls)
    # A missing last field may leave the size as it is, because of padding. The initialiser then
    # has too few values.
    zeros = ", ".join(_zero(field) for field in struct.decls)
    checks = [
        f"typedef struct {{ {fields} }} {copy};",
        _static_assert(f"sizeof({name}) == sizeof({copy})", f"size of {name}"),
        f"const {name} all_fields_of_{name} = {{ {zeros} }};",
    ]
    for field in struct.decls:
        real, declared = (f"__typeof__((({t} *)0)->{field.name})" for t in (name, copy))
        same_offset = f"offsetof({name}, {field.name}) == offsetof({copy}, {field.name})"
        same_type = f"__builtin_types_compatible_p({real}, {declared})"
        checks += [
            _line_directive(field.coord.line, field.coord.file),
            _static_assert(same_offset, f"offset of {name}.{field.name}"),
            _static_assert(same_type, f"type of {name}.{field.name}"),
        ]
    return checks


def _zero(field: c_ast.Decl) -> str:
    return "{0}" if isinstance(field.type, c_ast.ArrayDecl) else "0"


def _static_assert(condition: str, culprit: str) -> str:
    return f'_Static_assert({condition}, "{culprit}");'


def _line_directive(line: int, area: str) -> str:
    return f'#line {line} "cdefs/{area}.h"'


def _as_c(node: c_ast.Node) -> str:
    return str(c_generator.CGenerator().visit(node))
