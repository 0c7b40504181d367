"""Sphinx's settings of the site. `python -m docs.site build` stages the sources and calls Sphinx."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from asyncdali._version import __version__  # noqa: E402
from docs.site import inventories  # noqa: E402

project = "asyncdali"
author = "The asyncdali maintainers"
copyright = author
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.intersphinx"]
myst_enable_extensions = ["deflist", "colon_fence", "attrs_inline", "attrs_block"]
myst_heading_anchors = 4
intersphinx_mapping = inventories.write(Path(os.environ["ASYNCDALI_SITE_WORK"]) / "inventories")
highlight_language = "text"
nitpicky = True
smartquotes = False  # "--cpus" must stay as it is
html_theme = "furo"
html_title = f"asyncdali {version}"
html_static_path = [str(HERE / "static")]
templates_path = [str(HERE / "templates")]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = None
html_theme_options = {
    "source_repository": "https://github.com/asyncdali/asyncdali/",
    "source_branch": "main",
    "source_directory": "docs/",
    "top_of_page_buttons": [],
}
html_sidebars = {
    "**": [
        "sidebar/brand.html", "sidebar/version.html", "sidebar/search.html", "sidebar/scroll-start.html", "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}  # fmt: skip
