"""What every built page must have: links and anchors that exist, texts of pictures, few bytes."""

from __future__ import annotations

import os
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from . import browser

LARGEST = 500_000
"""Bytes of a page with the files that the browser loads at once: styles, scripts, and pictures that are not loaded lazily."""


class Page(HTMLParser):
    """The links, anchors and pictures of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loaded: list[str] = []
        """Files that the browser loads with the page."""
        self.lazy: list[str] = []
        self.silent: list[str] = []
        """Pictures without a text."""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.anchors.add(str(given["id"]))
        if tag == "a":
            if given.get("name"):
                self.anchors.add(str(given["name"]))
            if given.get("href"):
                self.links.append(str(given["href"]))
        elif tag == "img":
            (self.lazy if given.get("loading") == "lazy" else self.loaded).append(str(given.get("src")))
            if not (given.get("alt") or "").strip():
                self.silent.append(str(given.get("src")))
        elif tag == "script" and given.get("src"):
            self.loaded.append(str(given["src"]))
        elif tag == "link" and given.get("rel") == "stylesheet":
            self.loaded.append(str(given.get("href")))


def target_of(page: Path, link: str) -> tuple[Path, str] | None:
    """File and anchor of a link; None if it leaves the site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    return (Path(os.path.normpath(page.parent / unquote(parts.path))) if parts.path else page), unquote(parts.fragment)


def faults(pages: dict[Path, Page]) -> list[str]:
    """A line for each wrong link, missing anchor, picture without a text, and page that is too large."""
    found = []
    for path, page in pages.items():
        for link in page.links:
            target = target_of(path, link)
            if target is None:
                continue
            file, anchor = target
            if not file.exists():
                found.append(f"{path.name}: {link} does not exist")
            elif anchor and file in pages and anchor not in pages[file].anchors:
                found.append(f"{path.name}: {link} has no such anchor")
        for name in (*page.loaded, *page.lazy):
            target = target_of(path, name)
            if target is not None and not target[0].exists():
                found.append(f"{path.name}: {name} does not exist")
        found += [f"{path.name}: the picture {name} has no text" for name in page.silent]
        if (size := weight(page)) > LARGEST:
            found.append(f"{path.name}: {size} bytes with styles, scripts and pictures; at most {LARGEST}")
    return found


def weight(page: Page) -> int:
    """Bytes of a page with the files that are loaded with it."""
    files = {target[0] for name in page.loaded if (target := target_of(page.path, name)) is not None}
    return page.path.stat().st_size + sum(file.stat().st_size for file in files if file.exists())


def check(folder: Path, browse: bool) -> int:
    """Check all pages of a built site, and print the largest; `browse`: also in Chromium, where it exists. Returns the exit status."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    found = faults(pages)
    for line in found:
        print(line)
    sizes = sorted(((weight(page), path.relative_to(folder).as_posix()) for path, page in pages.items()), reverse=True)
    print("largest pages:", ", ".join(f"{name} {size // 1000} KB" for size, name in sizes[:4]))
    if browse and browser.usable():
        seen = browser.visit(folder, folder.parent / "screenshots")
        print(*seen, sep="\n", end="\n" if seen else "")
        print(f"Chromium: {len(browser.SHOWN)} pages on {len(browser.SCREENS)} screens, {len(seen)} faults")
        found += seen
    elif browse:
        print("Chromium or playwright is not installed: no page was opened")
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values())} links, {len(found)} faults")
    return 1 if found else 0
