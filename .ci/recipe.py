"""Render the conda recipe, and check that it asks for what the project asks for.

usage: recipe.py (needs py-rattler-build, which reads recipes as conda-forge's own builds do)
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

# pip's oneDNN, in whose place conda's own stands.
PIP_ONEDNN = "onednn-cpu-gomp"
CONDA_ONEDNN = "onednn-cpu-omp >=3,<4"


def rendered() -> dict[str, Any]:
    """Return the one package that the recipe makes."""
    import rattler_build

    recipe = rattler_build.Stage0Recipe.from_file(str(ROOT / "recipe" / "recipe.yaml"))
    (variant,) = recipe.render(rattler_build.VariantConfig())
    package: dict[str, Any] = variant.recipe.to_dict()
    return package


def requirements(pyproject: str) -> list[str]:
    """Return the run requirements of the project as a recipe writes them."""
    dependencies = re.search(r"^dependencies = \[\n(.*?)^\]", pyproject, re.MULTILINE | re.DOTALL)
    python = re.search(r'^requires-python = "(.+)"', pyproject, re.MULTILINE)
    names = re.findall(r'^    "([^"]+)"', dependencies[1] if dependencies else "", re.MULTILINE)
    written = [f"python{python[1] if python else ''}", *names]
    found = [_spaced(name) for name in written]
    return [CONDA_ONEDNN if name.startswith(PIP_ONEDNN) else name for name in found]


def build_requirements(pyproject: str) -> list[str]:
    """Return what the project is built with as a recipe writes it."""
    requires = re.search(r"^requires = \[(.+)\]", pyproject, re.MULTILINE)
    names = re.findall(r'"([^"]+)"', requires[1] if requires else "")
    return ["pip", *map(_spaced, names)]


def _spaced(requirement: str) -> str:
    return re.sub(r"(?<=\w)(?=[<>=])", " ", requirement, count=1)


def troubles(package: dict[str, Any], pyproject: str) -> list[str]:
    """Return what is wrong with the recipe."""
    found = []
    expected, written = requirements(pyproject), package["requirements"]["run"]
    if sorted(written) != sorted(expected):
        found.append(f"run: expected {', '.join(expected)}; got {', '.join(written)}")
    # The recipe builds without isolation, so that nothing else brings these.
    expected, written = build_requirements(pyproject), package["requirements"]["host"]
    written = [name for name in written if not name.startswith("python ")]
    if sorted(written) != sorted(expected):
        found.append(f"host: expected {', '.join(expected)}; got {', '.join(written)}")
    if package["build"].get("noarch") != "python":
        found.append("build: expected noarch: python")
    if f'\nversion = "{package["package"]["version"]}"\n' not in pyproject:
        found.append("the version is not that of pyproject.toml")
    # pip check would miss pip's oneDNN, so that the script removes it from the metadata.
    script = "\n".join(package["build"]["script"])
    removed = re.search(r"sed -i\.bak '/(.+)/d'", script)
    lines = pyproject.splitlines()
    gone = [line for line in lines if removed and re.search(removed[1], line)]
    if [line.split("==")[0].strip(' "') for line in gone] != [PIP_ONEDNN]:
        found.append(f"script: expected sed to delete the line of {PIP_ONEDNN}, got {gone}")
    for field in ("homepage", "license", "license_file", "summary"):
        if not package["about"].get(field):
            found.append(f"about: {field} is missing")
    return found


def main() -> int:
    found = troubles(rendered(), (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for trouble in found:
        print(f"recipe/recipe.yaml: {trouble}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
