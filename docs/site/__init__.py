"""The documentation site: the Markdown pages of docs/ and pages generated from declarations, built with Sphinx.

    pip install -e ".[docs]"
    python -m docs.site build                # build/site/VERSION/index.html
    python -m docs.site tutorials NAME...    # run notebooks, and store their outputs
    python -m docs.site check                # sizes, anchors, texts of pictures; in Chromium: errors of the console, screenshots

- build.py: stages the sources, runs Sphinx with warnings as errors, writes llms.txt and the Markdown beside each page.
- staging.py: copies the Markdown pages, and rewrites links that leave the site.
- operators.py: a page for each operator, from its declaration.
- examples.py: an example of each operator; programs.py: runs them. gallery.py, drawings.py: pictures of what they do.
- costs.py: measured times beside DALI's. wishes.py: an index by what readers want.
- tutorials.py: notebooks as pages, and pages as notebooks.
- charts.py: charts of the measurements. troubles.py: checks of the doctor and classes of errors.
- conf.py: Sphinx's settings. inventories.py: names of torch, NumPy and JAX that pages link to.
- check.py: what every built page must have. browser.py: opens pages in Chromium.
"""
