"""``python -m docs.site``: builds and checks the site."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from . import build, check, tutorials


def main() -> int:
    """Run the command that is given on the command line. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m docs.site", description=__doc__)
    parser.add_argument("command", choices=["build", "check", "tutorials"])
    parser.add_argument("names", nargs="*", help="of tutorials; none: all")
    parser.add_argument("--output", type=Path, default=build.OUTPUT, help="folder of the site (default: %(default)s)")
    options = parser.parse_args()
    output = options.output.resolve()
    if options.command == "build":
        return build.build(output)
    if options.command == "tutorials":
        for path in tutorials.files():
            if path.stem in options.names or not options.names:
                with tempfile.TemporaryDirectory() as folder:
                    text = path.read_text(encoding="utf-8")
                    path.write_text(tutorials.with_outputs(text, tutorials.run(text, Path(folder))), encoding="utf-8")
                print(path.stem, "was run")
        return 0
    return check.check(output / build.__version__, browse=True)


if __name__ == "__main__":
    sys.exit(main())
