"""The site's sources: copies of the Markdown pages of the repository, with links that fit the site.

A reader of the repository and a reader of the site see the same pages. On the site, a link to a page that is not part of the site leads to
the file in the repository.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from . import tutorials
from .inventories import PROJECTS, SHORT

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "https://github.com/asyncdali/asyncdali"
"""`project.urls.Source` of pyproject.toml."""

MOVED = {
    "benchmarks/README.md": "benchmarks/index.md",
    "examples/README.md": "examples.md", "docs/decisions/README.md": "decisions/index.md", "docs/operators.md": "operators/index.md",
    "README.md": "index.md", "asyncdali/data/skill.md": "skill.md",
}  # fmt: skip
"""File of the repository -> page of the site, where the name differs."""

GENERATED = {"docs/operators.md", "README.md"}
"""Files that have a page of the same subject on the site, and are not copied."""

LINK = re.compile(r"(\]\()([^)\s]+)(\))")
EXTERNAL = {name: kind for _, names in PROJECTS.values() for name, (kind, _) in names.items()}
"""Name of another project -> its kind."""
ROLES = {"function": "func", "module": "mod"}
"""Kind of a name -> Sphinx's role, where it has another name."""
NAME = re.compile("(?<![`[])`(" + "|".join(map(re.escape, [*SHORT, *PROJECTS])) + r")\.([\w.]+)`(?!`)")


def _external(match: re.Match[str]) -> str:
    """A name of another project as a reference that intersphinx resolves."""
    name = f"{SHORT.get(match[1], match[1])}.{match[2]}"
    if name not in EXTERNAL:
        return match[0]
    return f"{{py:{ROLES.get(EXTERNAL[name], EXTERNAL[name])}}}`{match[1]}.{match[2]} <{name}>`"


FENCE = re.compile(r"^(```+|~~~+)", re.M)


class BrokenLink(ValueError):
    """A link of a page leads to a file that does not exist."""


def pages() -> dict[str, str]:
    """File of the repository -> page of the site, for every file that has a page."""
    found = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    found += [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "benchmarks" / "results").glob("*.md"))]
    found += [path.name for path in sorted(ROOT.glob("*.md"))]
    found += [name for name in MOVED if name not in found]
    return {name: MOVED.get(name) or _place(name) for name in found}


def _place(name: str) -> str:
    if name.startswith("benchmarks/results/"):
        return f"benchmarks/{posixpath.basename(name)}"
    return name.removeprefix("docs/").removeprefix("site/") if "/" in name else name.lower()


def outside_of_code(text: str, change: Callable[[str], str]) -> str:
    """`text` with the parts that are not in fenced blocks of code changed by `change`."""
    parts, inside, fence, plain = [], False, "", []

    def flush() -> None:
        if plain:
            parts.append(change("".join(plain)))
            plain.clear()

    for line in text.splitlines(keepends=True):
        found = FENCE.match(line)
        if found and (not inside or line.startswith(fence)):
            flush()
            inside, fence = not inside, found[1]
            parts.append(line)
        elif inside:
            parts.append(line)
        else:
            plain.append(line)
    flush()
    return "".join(parts)


def rewritten(text: str, file: str, known: dict[str, str], operator_pages: dict[str, str]) -> str:
    """The text of a repository's file as the text of its page.

    `file` is its path, `known` the result of `pages`, and `operator_pages` gives the page of an anchor of docs/operators.md.

    Raises BrokenLink if a link leads nowhere.
    """
    here = posixpath.dirname(known[file])

    def replaced(match: re.Match[str]) -> str:
        target = match[2]
        if "://" in target or target.startswith(("mailto:", "#")):
            return match[0]
        path, _, anchor = target.partition("#")
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
        if not (ROOT / wanted).exists():
            raise BrokenLink(f"{file}: {target} does not exist")
        if wanted == "docs/operators.md" and anchor:
            if anchor not in operator_pages:
                raise BrokenLink(f"{file}: docs/operators.md has no operator {anchor}")
            page, anchor = operator_pages[anchor], ""
        elif wanted in known:
            page = known[wanted]
        elif wanted.startswith("docs/pictures/"):
            page = wanted.removeprefix("docs/")
        else:
            kind = "tree" if (ROOT / wanted).is_dir() else "blob"
            return f"{match[1]}{SOURCE}/{kind}/main/{wanted}{'#' + anchor if anchor else ''}{match[3]}"
        return f"{match[1]}{posixpath.relpath(page, here or '.')}{'#' + anchor if anchor else ''}{match[3]}"

    return outside_of_code(text, lambda part: NAME.sub(_external, LINK.sub(replaced, part)))


def stage(folder: Path, operator_pages: dict[str, str]) -> dict[str, str]:
    """Copy all pages to `folder`. Returns page of the site -> file of the repository. `operator_pages`: see `rewritten`."""
    known = pages()
    for file, page in known.items():
        if file not in GENERATED:
            target = folder / page
            target.parent.mkdir(parents=True, exist_ok=True)
            text = (ROOT / file).read_text(encoding="utf-8")
            if file.startswith("docs/tutorials/") and not file.endswith("/index.md"):
                text = tutorials.page(text, target.stem)
            target.write_text(rewritten(text, file, known, operator_pages), encoding="utf-8")
    pictures = folder / "pictures"
    pictures.mkdir(exist_ok=True)
    for path in sorted((ROOT / "docs" / "pictures").iterdir()):
        shutil.copy(path, pictures / path.name)
    return {page: file for file, page in known.items() if file not in GENERATED}

