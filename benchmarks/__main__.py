"""``python -m benchmarks [name ...]``: all benchmarks, or those named; prints tables, writes JSON."""

from __future__ import annotations

import argparse
import os

from . import cases
from .harness import environment, write_json
from .pictures import picture_folder


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(cases.CASES)} (default: all)")
    parser.add_argument("--data", help="folder of class folders with JPEGs (default: ASYNCDALI_BENCH_DATA, else made ones)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds per contender")
    parser.add_argument("--seconds", type=float, default=1.5, help="seconds per contender and round")
    parser.add_argument("--json", default="benchmarks/results/latest.json", help="where to write the results")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in cases.CASES]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; there are {', '.join(cases.CASES)}")
    os.environ.setdefault("ASYNCDALI_DEVICE", "host")
    settings = cases.Settings(picture_folder(options.data), options.rounds, options.seconds)
    info = environment()
    print(f"{info['date']}  {info['cpu']}  {info['cores']} cores  load {info['load']:.2f}  python {info['python']}")
    print("  ".join(f"{name} {version}" for name, version in info["versions"].items()))
    tables = []
    for name in options.names or cases.CASES:
        table = cases.CASES[name](settings)
        table.print()
        tables.append(table)
    os.makedirs(os.path.dirname(os.path.abspath(options.json)), exist_ok=True)
    write_json(options.json, tables)
    print(f"\nwritten to {options.json}")


if __name__ == "__main__":
    main()
