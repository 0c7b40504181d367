"""Texts for the user that any room may give.

    absent.py        names of DALI that asyncdali does not have: errors that say what to use instead
    extras.py        optional dependencies: errors that name the extra to install
    notices.py       warnings that point at the user's line, and hints for misspelt names
    status_line.py   a line of a terminal that is written again and again

May import: nothing.
"""
