"""``--set NAME=VALUE`` of bench, doctor, cache and engine: types, choices, unknown names and bad values."""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from asyncdali import fn, pipeline_def, types
from asyncdali.__main__ import main
from asyncdali.tooling import settings
from asyncdali.tooling.program import ProgramError


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def declared(
    number: int = 3, ratio: float = 0.5, flag: bool = False, text: str = "a", root: Path = Path("."), maybe: int | None = None,
    old: float | None = None, colour: Colour = Colour.RED, mode: Literal["fast", "exact", 3] = "fast", sizes: Sequence[int] = (1, 2),
    pair: tuple[int, str] = (1, "a"), noted: Annotated[int, "pixels"] = 1, names: list[str] = (), table: dict | None = None,
    anything: Any = None,
    either: int | str = 1,
):  # fmt: skip
    """A function whose arguments have annotations."""


def defaults(size=224, scale=1.5, mirror=True, name="x", dtype=types.FLOAT, window=(1, 2), folder=Path("/"), free=None, *, required):
    """A function whose arguments have defaults."""


def parsed(function, *given):
    return settings.settings_of(function, given)


@pytest.mark.parametrize("given, value", [
    ("number=-7", -7), ("number=8.0", 8), ("ratio=2", 2.0), ("ratio=1e-3", 1e-3), ("ratio=inf", float("inf")), ("flag=true", True),
    ("flag=No", False), ("flag=0", False), ("text=12", "12"), ('text="a b"', "a b"), ("text=", ""), ("text=a=b", "a=b"),
    ("root=/data/train", Path("/data/train")), ("maybe=none", None), ("maybe=4", 4), ("old=null", None), ("old=0.5", 0.5),
    ("colour=BLUE", Colour.BLUE), ("colour=Colour.BLUE", Colour.BLUE), ("mode=exact", "exact"), ("mode=3", 3), ("sizes=[3, 4]", [3, 4]),
    ("sizes=(3,)", [3]), ("pair=[5, 'b']", (5, "b")), ("noted=9", 9), ('names=["a", "1"]', ["a", "1"]), ('table={"a": 1}', {"a": 1}),
    ("anything=[1, 2]", [1, 2]), ("anything=null", None), ("anything=abc", "abc"), ("either=5", 5), ("either=five", "five"),
])  # fmt: skip
def test_values_have_the_annotated_type(given, value):
    (found,) = parsed(declared, given).values()
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("given, value", [
    ("size=64", 64), ("scale=2", 2.0), ("mirror=off", False), ("name=7", "7"), ("dtype=FLOAT16", types.FLOAT16), ("window=[3]", (3,)),
    ("folder=x", Path("x")), ("free=2.5", 2.5), ("free=text", "text"), ("required=1", 1),
])  # fmt: skip
def test_values_have_the_type_of_the_default(given, value):
    (found,) = parsed(defaults, given).values()
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("function, given, words", [
    (declared, "number=abc", ["--set number=abc: number of declared() is of type int"]),
    (declared, "number=1.5", ["of type int"]),
    (declared, "number=true", ["of type int"]),
    (declared, "ratio=much", ["of type float"]),
    (declared, "flag=maybe", ["flag of declared() is true or false"]),
    (declared, "colour=GREEN", ["one of RED, BLUE"]),
    (declared, "mode=slow", ["one of fast, exact, 3"]),
    (declared, "sizes=3", ["of type collections.abc.Sequence[int]"]),
    (declared, "sizes=[1, a]", ["Sequence[int]"]),
    (declared, 'sizes=[1, "a"]', ["Sequence[int]"]),
    (declared, "pair=[1, 'a', 2]", ["tuple[int, str]"]),
    (declared, "table=[1]", ["of type dict | None"]),
    (declared, "maybe=x", ["int | None"]),
    (defaults, "dtype=FLOAT17", ["one of ", "FLOAT16"]),
    (declared, "numbr=1", ["declared() has no argument 'numbr'", "Did you mean 'number'", "It has anything, colour"]),
    (declared, "number", ["'number' is not of the form NAME=VALUE"]),
    (declared, "=3", ["is not of the form NAME=VALUE"]),
    (declared, "a b=3", ["is not of the form NAME=VALUE"]),
])  # fmt: skip
def test_wrong_names_and_values_are_explained(function, given, words):
    with pytest.raises(ProgramError) as error:
        parsed(function, given)
    for word in words:
        assert word in str(error.value)


def test_a_name_is_given_once():
    with pytest.raises(ProgramError, match="--set number is given twice: 1 and 2"):
        parsed(declared, "number=1", "number=2")
    with pytest.raises(ProgramError, match="another option of the command sets number"):
        settings.settings_of(declared, ["number=1"], ["number"])


def test_deep_literals_are_texts_or_errors():
    deep = "[" * 100_000
    assert parsed(declared, f"anything={deep}") == {"anything": deep}
    with pytest.raises(ProgramError):
        parsed(declared, f"number={deep}")


def test_functions_that_take_more():
    def open_ended(size=1, **more):
        """Takes any argument."""

    def typed(known: NotKnown = 3):  # noqa: F821
        """An annotation that cannot be resolved."""

    assert parsed(open_ended, "size=2", "other=[1]") == {"size": 2, "other": [1]}
    assert parsed(typed, "known=4") == {"known": 4}
    assert parsed(functools.partial(declared, number=5), "number=6", "text=b") == {"number": 6, "text": "b"}


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def train(size: int = 8):
    return fn.random.uniform(shape=[size])


def test_options_of_a_pipeline_function():
    assert parsed(train, "size=3", "seed=7", "py_start_method=spawn", "enable_checkpointing=true") == {
        "size": 3, "seed": 7, "py_start_method": "spawn", "enable_checkpointing": True
    }  # fmt: skip
    with pytest.raises(ProgramError, match=r"train\(\) has no argument 'sizes'. Did you mean 'size'\? It has size$"):
        parsed(train, "sizes=3")
    with pytest.raises(ProgramError, match="enable_checkpointing of train.* true or false"):
        parsed(train, "enable_checkpointing=perhaps")
    pipeline = train()
    with pytest.raises(ProgramError, match="exists already"):
        parsed(pipeline, "size=3")


# --- the commands

PROGRAM = """
from pathlib import Path
from asyncdali import fn, pipeline_def, types

@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def train(size: int, kind=types.FLOAT, folder="x", place=Path(".")):
    assert folder == "/data"
    return fn.cast(fn.random.uniform(shape=[size]), dtype=kind)
"""


@pytest.fixture
def target(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return f"{file}:train"


def test_bench_measures_with_the_values(capsys, target):
    given = ["--set", "size=5", "--set", "kind=INT32", "--set", "folder=/data", "--set", "seed=4"]
    assert main(["bench", target, "--iterations", "2", "--json", "--batch-size", "3", *given]) == 0
    found = json.loads(capsys.readouterr().out)["measurement"]["settings"]
    assert (found["size"], found["folder"], found["seed"], found["batch_size"]) == (5, "/data", 4, 3) and "INT32" in found["kind"]
    assert main(["bench", target, "--sweep", "batch-size=1", "--iterations", "2", *given]) == 0


@pytest.mark.parametrize("more, words", [
    ([], ["missing 1 required positional argument: 'size'", "Give --set size=..."]),
    (["--set", "size=big"], ["size of train() is of type int"]),
    (["--set", "batch_size=3", "--batch-size", "4"], ["another option of the command sets batch_size"]),
    (["--set", "num_threads=3", "--sweep", "threads=1,2"], ["another option of the command sets num_threads"]),
    (["--set", "size=1", "--set", "folder=/data", "--set", "place=/a", "--vs", "dali"], ["--vs dali passes numbers"]),
])  # fmt: skip
def test_bench_explains(capsys, target, more, words):
    assert main(["bench", target, "--iterations", "2", *more]) == 1
    said = capsys.readouterr().err
    for word in words:
        assert word in said


def test_doctor_takes_values(capsys, target):
    assert main(["doctor", target, "--set", "size=5", "--set", "folder=/data", "--json"]) in (0, 1)
    assert isinstance(json.loads(capsys.readouterr().out), list)
    assert main(["doctor", target, "--set", "size=x"]) == 2
    assert "size of train() is of type int" in capsys.readouterr().err
    assert main(["doctor", "--set", "size=5"]) == 2
    assert "--set size=5 is for a pipeline" in capsys.readouterr().err


def test_a_value_without_its_name_is_explained(capsys, target):
    with pytest.raises(SystemExit):
        main(["verify", target, "/data"])
    assert "unrecognized arguments: /data. Arguments of the function that makes the pipeline: --set NAME=VALUE" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["skill", "more"])
    assert "unrecognized arguments: more\n" in capsys.readouterr().err
