"""Opens pages of the built site in Chromium: errors of the console, and screenshots for desktop and phone.

Needs the extra `browser` and an installed Chromium.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

SHOWN = (
    "index", "start", "coming_from/torch", "operators/erase", "gallery/index", "gallery/policies", "wishes", "benchmarks/charts",
)  # fmt: skip
"""Pages of the screenshots."""

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
)  # fmt: skip

SCREENS = {"desktop": (1280, 900), "phone": (390, 844)}
"""Name -> columns and rows."""


def executable() -> str | None:
    """The installed Chromium; None if there is none."""
    return next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)


def usable() -> bool:
    """Whether Chromium and playwright are installed."""
    return executable() is not None and importlib.util.find_spec("playwright") is not None


def visit(pages: Path, shots: Path) -> list[str]:
    """Open the pages of SHOWN on both screens, and save screenshots to `shots`. Returns a line for each error of a console, each picture
    that did not load, each page that is wider than the screen, and what does not react.
    """
    from playwright.sync_api import sync_playwright

    shots.mkdir(parents=True, exist_ok=True)
    found: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=list(FLAGS))
        for screen, (width, height) in SCREENS.items():
            tab = browser.new_page(viewport={"width": width, "height": height}, is_mobile=screen == "phone")
            errors: list[str] = []
            tab.on("console", lambda message, errors=errors: errors.append(message.text) if message.type == "error" else None)
            tab.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
            for name in SHOWN:
                errors.clear()
                tab.goto((pages / f"{name}.html").as_uri())
                tab.wait_for_load_state("load")
                tab.screenshot(path=shots / f"{name.replace('/', '-')}-{screen}.png")
                wide = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                if wide > 0:
                    errors.append(f"the page is {wide} pixels wider than the screen")
                broken = tab.evaluate("[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)")
                found += [f"{name} ({screen}): {error}" for error in [*errors, *(f"{picture} did not load" for picture in broken)]]
            found += [f"{name} ({screen})" for name in tried(tab, pages)]
            tab.close()
        browser.close()
    return found


def tried(tab: Any, pages: Path) -> list[str]:
    """Use the search, the filter of the wish index and the version switcher. Returns a line for each that does not work."""
    found = []
    tab.goto(f"{(pages / 'search.html').as_uri()}?q=grid_mask")
    try:
        tab.wait_for_selector("ul.search li a[href*='grid_mask']", timeout=20_000)
    except Exception as error:
        found.append(f"search does not find grid_mask: {error}")
    tab.goto((pages / "wishes.html").as_uri())
    tab.fill("#wish-filter", "random holes")
    shown = tab.eval_on_selector_all("li.wish:not([hidden])", "items => items.map(item => item.textContent)")
    if shown != ["cut random holes: erase, grid_mask"]:
        found.append(f"the filter of the wish index shows {shown}")
    options = tab.eval_on_selector_all("#site-version option", "items => items.map(item => item.textContent)")
    if pages.name not in options:
        found.append(f"the version switcher shows {options}")
    return found
