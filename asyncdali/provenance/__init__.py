"""The origin of every sample of every step: files, draws, windows. State is a position, so this needs no run of the steps before.

    contents.py    contents of files of the same names
    diff.py        differences of two sides; streams.py: the first step that differs; sides.py: checkpoints, graphs and pipelines
    explain.py     the link from a batch to its provenance
    page.py        the page about a step; page_texts.py: its style and script; replayed.py: a step that was made again
    positions.py   the positions of all stateful operators at any step
    report.py      files, records, draws and windows of one step

May import: the runtime and what is below it; no pipelines.
"""
