"""Random programs with conditions, as text: the same text runs in DALI, in asyncdali, and (`plain`) in Python sample by sample."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 7
ITERATIONS = 2
NUMBERS = ("x", "y", "z")
FLAGS = ("p", "q", "r")


class Program:
    """Draws a program: statements over three INT32 and three BOOL variables, a dictionary and a list of numbers.

    `plain`: only what Python does with single samples as well (no random operators), and what DALI does not have: early returns from
    anywhere, conditional expressions.
    """

    def __init__(self, seed: int, plain: bool = False, depth: int = 3):
        self.draw = random.Random(seed)
        self.plain = plain
        self.lines: list[str] = []
        self.calls = 0
        self.in_loop = 0
        self._header()
        self._block(1, depth)
        names = ", ".join((*NUMBERS, *FLAGS, "d['a']", "d['b']", "l[0]", "l[1]"))
        self._line(1, f"return {names}")
        self.text = "\n".join(self.lines) + "\n"

    def _line(self, level: int, text: str) -> None:
        self.lines.append("    " * level + text)

    def _header(self) -> None:
        self._line(0, "def choose(a, b, c):")
        for _ in range(self.draw.randint(0, 1)):
            self._line(1, f"b = {self._number('ab')}")
        if self.plain:
            self._returns("ab", "c")
        else:
            self._line(1, "if c:")
            self._line(2, f"return {self._number('ab')}")
            self._line(1, f"return {self._number('ab')}")
        self._line(0, "")
        self._line(0, "def graph():")
        for k, name in enumerate(NUMBERS):
            self._line(1, f"{name} = feed({k})")
        for k, name in enumerate(FLAGS):
            self._line(1, f"{name} = flag({k})")
        self._line(1, "d = {'a': x, 'b': y}")
        self._line(1, "l = [y, z]")

    def _returns(self, numbers: str, flag: str) -> None:
        """A function body that returns from anywhere."""
        level = 1
        for _ in range(self.draw.randint(1, 3)):
            self._line(level, f"if {self.draw.choice([flag, f'not {flag}', 'a > b', 'a < 3', 'a < b < 7'])}:")
            kind = self.draw.randrange(4)
            if kind == 0:
                self._line(level + 1, f"return {self._number(numbers)}")
            elif kind == 1:
                self._line(level + 1, f"a = {self._number(numbers)}")
                self._line(level + 1, f"if {self.draw.choice(['a > 4', 'b == 2', flag])}:")
                self._line(level + 2, f"return {self._number(numbers)}")
                self._line(level + 1, f"b = {self._number(numbers)}")
            elif kind == 2:
                self._line(level + 1, "for k in range(3):")
                self._line(level + 2, f"if a {self.draw.choice('<>')} k + {self.draw.randint(0, 5)}:")
                self._line(level + 3, self.draw.choice([f"return {self._number(numbers)}", "continue"]))
                self._line(level + 2, f"a = {self._number(numbers)}")
            else:
                self._line(level + 1, f"b = {self._number(numbers)}")
                self._line(level, "else:")
                self._line(level + 1, f"if {self.draw.choice(['a > b', 'b > 5'])}:")
                self._line(level + 2, f"return {self._number(numbers)}")
        self._line(level, f"return {self._number(numbers)}")

    # --- statements

    def _block(self, level: int, depth: int) -> None:
        for _ in range(self.draw.randint(1, 3)):
            self._statement(level, depth)

    def _statement(self, level: int, depth: int) -> None:
        kinds = ["number", "number", "flag", "item", "pair", "call"]
        if depth:
            kinds += ["if", "if", "if", "for"]
        kind = self.draw.choice(kinds)
        if kind == "number":
            self._line(level, f"{self.draw.choice(NUMBERS)} = {self._number()}")
        elif kind == "flag":
            self._line(level, f"{self.draw.choice(FLAGS)} = {self._condition(1)}")
        elif kind == "item":
            place = self.draw.choice(["d['a']", "d['b']", "l[0]", "l[1]"])
            self._line(level, f"{place} {self.draw.choice(['=', '=', '+='])} {self._number()}")
        elif kind == "pair":
            one, two = self.draw.sample(NUMBERS, 2)
            self._line(level, f"{one}, {two} = {self._number()}, {self._number()}")
        elif kind == "call":
            self._line(level, f"{self.draw.choice(NUMBERS)} = choose({self._number()}, {self._number()}, {self._test(1)})")
        elif kind == "if":
            self._if(level, depth)
        else:
            self._for(level, depth)

    def _if(self, level: int, depth: int) -> None:
        self._line(level, f"if {self._test(2)}:")
        self._block(level + 1, depth - 1)
        if self.draw.random() < 0.3:
            self._line(level, f"elif {self._test(2)}:")
            self._block(level + 1, depth - 1)
        if self.draw.random() < 0.5:
            self._line(level, "else:")
            self._block(level + 1, depth - 1)

    def _for(self, level: int, depth: int) -> None:
        self._line(level, f"for k{level} in range({self.draw.randint(1, 2)}):")
        if self.draw.random() < 0.5:
            self._block(level + 1, depth - 1)
        if self.draw.random() < 0.6:
            self._line(level + 1, f"if {self._test(1)}:")
            if self.draw.random() < 0.5:
                self._line(level + 2, f"{self.draw.choice(NUMBERS)} = {self._number()}")
            self._line(level + 2, "continue")
        self._block(level + 1, depth - 1)

    # --- expressions

    def _number(self, names: Any = NUMBERS) -> str:
        draw = self.draw
        name = draw.choice([*names, *(["d['a']", "l[0]", "l[1]"] if names is NUMBERS else [])])
        kinds = ["name", "sum", "sum", "product", "call"]
        if self.plain:
            kinds += ["choice"]
        else:
            kinds += ["uniform", "coin", "noise", "source", "python"]
        kind = draw.choice(kinds)
        self.calls += 1
        return {
            "name": lambda: name,
            "sum": lambda: f"{name} + {draw.randint(1, 5)}",
            "product": lambda: f"{name} - {draw.choice(list(names))} * {draw.randint(2, 3)}",
            "call": lambda: f"twice({name})",
            "choice": lambda: f"({name} if {draw.choice(list(names))} > {draw.randint(0, 9)} else {draw.choice(list(names))} + 1)",
            "uniform": lambda: "integer(fn.random.uniform(range=[0, 10]))",
            "coin": lambda: "fn.random.coin_flip()",
            "noise": lambda: f"integer(fn.random.normal({name}, stddev=9.0))",
            "source": lambda: f"feed({draw.randint(0, 5)})",
            "python": lambda: f"fn.python_function({name}, function=plus_one)",
        }[kind]()

    def _test(self, depth: int) -> str:
        if not self.plain and self.draw.random() < 0.15:
            return self.draw.choice(NUMBERS)  # a number is a condition, too
        return self._condition(depth)

    def _condition(self, depth: int) -> str:
        draw = self.draw
        if depth == 0 or draw.random() < 0.3:
            return draw.choice(FLAGS)
        kind = draw.choice(["not", "and", "or", "less", "equal", "between", *([] if self.plain else ["coin", "flag"])])
        inner = (self._condition(depth - 1), self._condition(depth - 1))
        one, two = draw.choice(NUMBERS), draw.choice(NUMBERS)
        return {
            "not": f"(not {inner[0]})",
            "and": f"({inner[0]} and {inner[1]})",
            "or": f"({inner[0]} or {inner[1]})",
            "less": f"({one} < {draw.randint(0, 9)})",
            "equal": f"({one} == {two})",
            "between": f"({draw.randint(0, 3)} < {one} <= {draw.randint(4, 9)})",
            "coin": "boolean(fn.random.coin_flip())",
            "flag": f"flag({draw.randint(0, 5)})",
        }[kind]


def numbers_of(k: int, iteration: int) -> np.ndarray:
    """What ``feed(k)`` delivers."""
    return np.random.default_rng([k, iteration]).integers(0, 10, BATCH, dtype=np.int32)


def flags_of(k: int, iteration: int) -> np.ndarray:
    """What ``flag(k)`` delivers; now and then the same for all samples."""
    rng = np.random.default_rng([7, k, iteration])
    return rng.random(BATCH) < rng.choice([0.0, 0.2, 0.5, 0.8, 1.0])


def plus_one(value: Any) -> Any:
    """For python_function; DALI takes arrays only."""
    return np.asarray(value + 1, np.int32)


def load(text: str, path: Path, names: dict[str, Any]) -> Callable[[], Any]:
    """The function ``graph`` of a program's text, kept at `path` (what is rewritten must have a source)."""
    path.write_text(text)
    namespace = {"plus_one": plus_one, "__name__": path.stem, **names}
    exec(compile(text, str(path), "exec"), namespace)
    return namespace["graph"]


def library_names(library: Any) -> dict[str, Any]:
    """What programs use, for asyncdali or DALI."""
    fn, types = library.fn, library.types
    return {
        "fn": fn,
        "feed": lambda k: fn.external_source(lambda i: numbers_of(k, i), batch=True),
        "flag": lambda k: fn.external_source(lambda i: flags_of(k, i), batch=True),
        "twice": lambda value: value * 2,
        "integer": lambda value: fn.cast(value, dtype=types.INT32),
        "boolean": lambda value: fn.cast(value, dtype=types.BOOL),
    }


def run(library: Any, graph: Callable[[], Any]) -> list[Any]:
    """The outputs of the program in two iterations, as nested lists with their types."""
    definition = library.pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=11, enable_conditionals=True)
    pipeline = definition(graph)()
    pipeline.build()
    results = []
    for _ in range(ITERATIONS):
        outputs = pipeline.run()
        results.append([[(np.array(item.at(k)).dtype.str, np.array(item.at(k)).tolist()) for k in range(len(item))] for item in outputs])
    if hasattr(pipeline, "close"):
        pipeline.close()
    return results


def run_plain(text: str, path: Path) -> list[Any]:
    """The program as plain Python, sample by sample."""
    results = []
    for iteration in range(ITERATIONS):
        columns = []
        for sample in range(BATCH):
            graph = load(text, path, {
                "feed": lambda k, i=iteration, s=sample: int(numbers_of(k, i)[s]),
                "flag": lambda k, i=iteration, s=sample: bool(flags_of(k, i)[s]),
                "twice": lambda value: value * 2,
            })  # fmt: skip
            columns.append(graph())
        results.append([list(column) for column in zip(*columns, strict=True)])
    return results
