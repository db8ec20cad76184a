"""Check that a tag, the version, the changelog and the conda recipe belong together.

usage: release.py check TAG [DIST_FOLDER]
       release.py notes TAG

``check`` prints all that is wrong, and fails. ``notes`` prints the changelog's section of the
version, the text of a release.
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

SECTION = re.compile(r"^## (?P<title>.+)\n(?P<text>(?:(?!## ).*\n?)*)", re.MULTILINE)


def project_version(root: Path) -> str:
    """Return the version of pyproject.toml."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^version = "(.+)"$', text, re.MULTILINE)
    return found[1] if found else ""


def sections(root: Path) -> dict[str, str]:
    """Return the changelog's sections by their titles."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    return {match["title"].strip(): match["text"].strip() for match in SECTION.finditer(text)}


def notes(root: Path, version: str) -> str:
    """Return the changelog's text of a version, empty if there is none."""
    for title, text in sections(root).items():
        if title.split(" ")[0].strip("[]") == version:
            return text
    return ""


def troubles(root: Path, tag: str, dist: Path | None = None) -> list[str]:
    """Return what does not belong together; nothing if the tag can be released."""
    found = []
    version = project_version(root)
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        found.append(f"pyproject.toml: version {version!r} is no release such as 1.2.3 or 1.2.3rc1")
    if tag != f"v{version}":
        found.append(f"the tag is {tag}, but pyproject.toml has {version}: expected v{version}")
    found += _changelog_troubles(root, version)
    recipe = (root / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    if f'\n  version: "{version}"\n' not in recipe:
        found.append(f"recipe/recipe.yaml: expected version {version}")
    if dist is not None:
        names = sorted(path.name for path in dist.iterdir())
        expected = [f"onednn_py-{version}-py3-none-any.whl", f"onednn_py-{version}.tar.gz"]
        if names != expected:
            found.append(f"{dist}: expected {' and '.join(expected)}; got {', '.join(names)}")
    return found


def _changelog_troubles(root: Path, version: str) -> list[str]:
    released = sections(root)
    titles = list(released)
    dated = [title for title in titles if title.split(" ")[0].strip("[]") == version]
    if not dated:
        return [f"CHANGELOG.md has no section of {version}: expected ## {version} - YYYY-MM-DD"]
    found = []
    date = re.fullmatch(r"\S+ - (\d{4}-\d\d-\d\d)", dated[0])
    try:
        datetime.date.fromisoformat(date[1] if date else "")
    except ValueError:
        found.append(f"CHANGELOG.md: expected ## {version} - YYYY-MM-DD, got ## {dated[0]}")
    if not released[dated[0]]:
        found.append(f"CHANGELOG.md: nothing is written under {dated[0]}")
    before = titles[: titles.index(dated[0])]
    if before not in ([], ["Unreleased"]):
        found.append(f"CHANGELOG.md: {version} is not the newest section: {', '.join(before)}")
    if released.get("Unreleased"):
        found.append(f"CHANGELOG.md: what stands under Unreleased belongs to {version}")
    return found


def main(arguments: list[str]) -> int:
    if len(arguments) == 2 and arguments[0] == "notes":
        text = notes(ROOT, arguments[1].removeprefix("v"))
        print(text)
        return 0 if text else 1
    if len(arguments) in (2, 3) and arguments[0] == "check":
        dist = Path(arguments[2]) if len(arguments) == 3 else None
        found = troubles(ROOT, arguments[1], dist)
        for trouble in found:
            print(trouble, file=sys.stderr)
        return 1 if found else 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
