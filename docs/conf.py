"""Settings of the documentation site: ``sphinx-build -W --keep-going docs site``."""

from __future__ import annotations

import re
import shutil
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

project = "onednn_py"
author = "the authors of onednn_py"
copyright = author  # noqa: A001 - Sphinx's name
version = release = installed_version("onednn_py")

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
nitpicky = True
# Gigabytes, of which the reference shows nothing.
autodoc_mock_imports = ["torch"]
# Other projects' names, and the package's own, which has no page.
nitpick_ignore_regex = [("py:obj", r"(scipy|torch)\..*|onednn_py")]
templates_path = ["_templates"]

# Names in single backticks are links to the reference; the numpydoc sections give the types.
default_role = "py:obj"
autodoc_typehints = "none"
numpydoc_show_class_members = False
autosummary_ignore_module_all = False

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
# The notebooks hold their pictures: CI runs them, the site shows them.
nb_execution_mode = "off"

html_theme = "pydata_sphinx_theme"
html_title = "onednn_py"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
# Pages without siblings.
html_sidebars = {page: [] for page in ("index", "getting-started")}
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def _copy_examples() -> None:
    """Put the notebooks where Sphinx looks for pages; the folder is not under version control."""
    folder = HERE / "examples"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for notebook in sorted((HERE.parent / "examples").glob("*.ipynb")):
        shutil.copy(notebook, folder)


def _escape_shapes(*arguments: Any) -> None:
    """Keep the star of shapes such as (N, *S, I), which begins emphasis in reStructuredText."""
    lines: list[str] = arguments[-1]
    lines[:] = [re.sub(r"(?<![*`\\])\*(?=(S|X|kernel)\b)", r"\\*", line) for line in lines]


def _list_other_keywords(*arguments: Any) -> None:
    """Turn the sentence about other keywords into an entry of the parameters that it ends."""
    lines: list[str] = arguments[-1]
    sentence = re.compile(r"The other keywords are those of (`\w+`)\.")
    for number, line in enumerate(lines):
        if found := sentence.fullmatch(line):
            lines[number : number + 1] = ["other keywords", f"    Those of {found[1]}."]


def setup(app: Any) -> None:
    """Connect what Sphinx calls."""
    app.connect("autodoc-process-docstring", _list_other_keywords, priority=400)
    # After numpydoc, which has priority 500.
    app.connect("autodoc-process-docstring", _escape_shapes, priority=600)


_copy_examples()
