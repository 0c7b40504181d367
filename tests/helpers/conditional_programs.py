"""Random programs with conditions, as text: the same text runs in DALI, in asyncdali, and (`plain`) in Python sample by sample."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from helpers.images import encode

BATCH = 7
ITERATIONS = 2
SMALLER = 4
"""Number of samples in every other batch of the sources, where there are no readers."""
NUMBERS = ("x", "y", "z")
FLAGS = ("p", "q", "r")
IMAGES = ("u", "v")


class Program:
    """Draws a program: statements over three INT32 and three BOOL variables, a dictionary and a list of numbers.

    `plain`: only constructs that Python has for single samples as well (no random operators), and constructs that DALI lacks: early returns
    from anywhere, conditional expressions. `images`: two variables with images, which readers and sources deliver, too; conditions and
    numbers may come from their pixels.
    """

    def __init__(self, seed: int, plain: bool = False, depth: int = 3, images: bool = False):
        self.draw = random.Random(seed)
        self.plain = plain
        self.images = images
        self.lines: list[str] = []
        self.calls = 0
        self.in_loop = 0
        self._header()
        self._block(1, depth)
        names = ", ".join((*NUMBERS, *FLAGS, "d['a']", "d['b']", "l[0]", "l[1]", *(IMAGES if images else ())))
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
        for k, name in enumerate(IMAGES if self.images else ()):
            self._line(1, f"{name} = {('picture(0)', 'decoded(0)')[k]}")
        self._line(1, "d = {'a': x, 'b': y}")
        self._line(1, "l = [y, z]")

    def _returns(self, numbers: str, flag: str) -> None:
        """A function body that returns from anywhere."""
        level = 1
        for _ in range(self.draw.randint(1, 3)):
            self._line(level, f"if {self.draw.choice([flag, f'not {flag}', 'a > b', 'a < 3', 'a < b < 7'])}:")
            kind = self.draw.randrange(5)
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
            elif kind == 3:
                self._line(level + 1, "for k in range(2):")
                self._leaves(level + 2, numbers, 2)
            else:
                self._line(level + 1, f"b = {self._number(numbers)}")
                self._line(level, "else:")
                self._line(level + 1, f"if {self.draw.choice(['a > b', 'b > 5'])}:")
                self._line(level + 2, f"return {self._number(numbers)}")
        self._line(level, f"return {self._number(numbers)}")

    def _leaves(self, level: int, numbers: str, depth: int) -> None:
        """Statements in a loop, after which some samples return, some continue the loop and some run the rest."""
        for _ in range(self.draw.randint(1, 2)):
            self._line(level, f"if {self.draw.choice(['a > 4', 'b < 3', 'a == b', 'a < k + 3'])}:")
            for word in ("elif b > 6:", "else:", ""):
                kind = self.draw.randrange(4)
                if kind == 0 and depth:
                    self._leaves(level + 1, numbers, depth - 1)
                else:
                    self._line(level + 1, [f"return {self._number(numbers)}", "continue", f"a = {self._number(numbers)}"][kind % 3])
                if not word or self.draw.random() < 0.4:
                    break
                self._line(level, word)
            self._line(level, f"{self.draw.choice('ab')} = {self._number(numbers)}")

    # --- statements

    def _block(self, level: int, depth: int) -> None:
        for _ in range(self.draw.randint(1, 3)):
            self._statement(level, depth)

    def _statement(self, level: int, depth: int) -> None:
        kinds = ["number", "number", "flag", "item", "pair", "call"]
        if self.images:
            kinds += ["image", "image"]
        if depth:
            kinds += ["if", "if", "if", "for"]
        kind = self.draw.choice(kinds)
        if kind == "number":
            self._line(level, f"{self.draw.choice(NUMBERS)} = {self._number()}")
        elif kind == "flag":
            self._line(level, f"{self.draw.choice(FLAGS)} = {self._condition(1)}")
        elif kind == "image":
            self._line(level, f"{self.draw.choice(IMAGES)} = {self._image()}")
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
            kinds += ["uniform", "coin", "noise", "source", "python", "permuted"]
        if self.images and names is NUMBERS:
            kinds += ["pixel", "height", "label"]
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
            "permuted": lambda: f"fn.permute_batch({name}, indices=fn.batch_permutation())",
            "pixel": lambda: f"integer(fn.reductions.{draw.choice(['min', 'max', 'mean'])}({self._image()})) % 10",
            "height": lambda: f"integer(fn.shapes({draw.choice(IMAGES)})[0]) % 10",
            "label": lambda: f"label({draw.randint(0, 3)})",
        }[kind]()

    def _image(self) -> str:
        draw = self.draw
        name = draw.choice(IMAGES)
        amount = draw.choice(["fn.random.uniform(range=[0.5, 1.5])", "0.8", "rational(x) * 0.1"])
        return {
            "name": name,
            "flip": f"fn.flip({name}, horizontal={draw.choice(['1', 'fn.random.coin_flip()', 'integer(p)'])})",
            "bright": f"fn.brightness({name}, brightness={amount})",
            "twist": f"fn.color_twist({name}, contrast={amount}, saturation={amount})",
            "crop": f"fn.crop({name}, crop=[4, 5], crop_pos_x=fn.random.uniform(range=[0, 1]), crop_pos_y={draw.choice(['0.3', '1.0'])})",
            "sum": f"fn.cast({name} * 0.5 + {draw.choice(NUMBERS)}, dtype=types.UINT8)",
            "slice": f"{name}[{draw.choice(['1:', ':-1, 1:', '::-1', ':, ::-1'])}]",
            "noise": f"fn.reshape(fn.cast(fn.random.normal({name}, stddev=9.0), dtype=types.UINT8), layout='HWC')",
            "python": f"fn.python_function({name}, function=negative, output_layouts='HWC')",
            "pictures": f"picture({draw.randint(0, 3)})",
            "decoded": f"decoded({draw.randint(0, 3)})",
        }[draw.choice(["name", "flip", "bright", "twist", "crop", "sum", "slice", "noise", "python", "pictures", "decoded"])]

    def _test(self, depth: int) -> str:
        if not self.plain and self.draw.random() < 0.15:
            return self.draw.choice(NUMBERS)  # a number is a condition, too
        if self.images and self.draw.random() < 0.2:
            return f"fn.reductions.mean({self._image()}) > {self.draw.choice([90.0, 120.0, 140.0])}"
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


def size_of(iteration: int) -> int:
    """Samples of a batch, where sizes vary."""
    return SMALLER if iteration % 2 else BATCH


def numbers_of(k: int, iteration: int, size: int = BATCH) -> np.ndarray:
    """The result of ``feed(k)``."""
    return np.random.default_rng([k, iteration]).integers(0, 10, size, dtype=np.int32)


def flags_of(k: int, iteration: int, size: int = BATCH) -> np.ndarray:
    """The result of ``flag(k)``; sometimes the same for all samples."""
    rng = np.random.default_rng([7, k, iteration])
    return rng.random(size) < rng.choice([0.0, 0.2, 0.5, 0.8, 1.0])


def pictures_of(k: int, iteration: int) -> list[np.ndarray]:
    """The result of ``picture(k)``."""
    rng = np.random.default_rng([9, k, iteration])
    return [rng.integers(0, 256, (*rng.integers(14, 20, 2), 3), np.uint8) // rng.integers(1, 4, dtype=np.uint8) for _ in range(BATCH)]


def picture_files(folder: Path, count: int = 11) -> list[str]:
    """Lossless images for ``decoded(k)`` and ``label(k)``, all of different sizes."""
    names = []
    for k in range(count):
        rng = np.random.default_rng([5, k])
        names.append(str(folder / f"{k}.png"))
        Path(names[-1]).write_bytes(encode(rng.integers(0, 256, (14 + k % 4, 15 + k % 5, 3), np.uint8), "png"))
    return names


def plus_one(value: Any) -> Any:
    """For python_function; DALI takes arrays only."""
    return np.asarray(value + 1, np.int32)


def negative(image: np.ndarray) -> np.ndarray:
    """For python_function."""
    return 255 - image


def seeded(text: str) -> str:
    """A program whose draws do not depend on automatic seeds (readers get theirs from `library_names`)."""
    text = re.sub(r"fn\.random\.(coin_flip|uniform)\(", r"fn.random.\1(seed=5, ", text)
    return text.replace("stddev=9.0)", "stddev=9.0, seed=9)").replace("batch_permutation()", "batch_permutation(seed=7)")


def load(text: str, path: Path, names: dict[str, Any]) -> Callable[[], Any]:
    """The function ``graph`` of a program's text. The text is kept at `path`, because rewriting needs the source."""
    path.write_text(text)
    namespace = {"plus_one": plus_one, "negative": negative, "__name__": path.stem, **names}
    exec(compile(text, str(path), "exec"), namespace)
    return namespace["graph"]


def library_names(library: Any, files: list[str] | None = None, **options: Any) -> dict[str, Any]:
    """The names that programs use, for asyncdali or DALI. `files`, `options`: of the readers. Without `files` batch sizes vary."""
    fn, types = library.fn, library.types

    def size(iteration: int) -> int:
        return size_of(iteration) if files is None else BATCH

    def reader(k: int) -> Any:
        labels = [k % 7 for k in range(len(files or ()))]
        return fn.readers.file(files=files, labels=labels, random_shuffle=k % 2 == 0, initial_fill=4, **options)

    return {
        "fn": fn,
        "types": types,
        "picture": lambda k: fn.external_source(lambda i: pictures_of(k, i), batch=True, layout="HWC"),
        "decoded": lambda k: fn.decoders.image(reader(k)[0]),
        "label": lambda k: fn.reshape(reader(k)[1], shape=[]),
        "rational": lambda value: fn.cast(value, dtype=types.FLOAT),
        "feed": lambda k: fn.external_source(lambda i: numbers_of(k, i, size(i)), batch=True),
        "flag": lambda k: fn.external_source(lambda i: flags_of(k, i, size(i)), batch=True),
        "twice": lambda value: value * 2,
        "integer": lambda value: fn.cast(value, dtype=types.INT32),
        "boolean": lambda value: fn.cast(value, dtype=types.BOOL),
    }


def run(library: Any, graph: Callable[[], Any], **options: Any) -> list[Any]:
    """The outputs of the program in two iterations, as nested lists with their types; `options`: of the pipeline."""
    definition = library.pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=11, enable_conditionals=True, **options)
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
        for sample in range(size_of(iteration)):
            graph = load(text, path, {
                "feed": lambda k, i=iteration, s=sample: int(numbers_of(k, i, size_of(i))[s]),
                "flag": lambda k, i=iteration, s=sample: bool(flags_of(k, i, size_of(i))[s]),
                "twice": lambda value: value * 2,
            })  # fmt: skip
            columns.append(graph())
        results.append([list(column) for column in zip(*columns, strict=True)])
    return results
