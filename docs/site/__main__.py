"""``python -m docs.site``: builds and checks the site."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import build, check


def main() -> int:
    """Run the command that is given on the command line. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m docs.site", description=__doc__)
    parser.add_argument("command", choices=["build", "check"])
    parser.add_argument("--output", type=Path, default=build.OUTPUT, help="folder of the site (default: %(default)s)")
    options = parser.parse_args()
    output = options.output.resolve()
    if options.command == "build":
        return build.build(output)
    return check.check(output / build.__version__, browse=True)


if __name__ == "__main__":
    sys.exit(main())
