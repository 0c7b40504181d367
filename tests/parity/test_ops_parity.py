"""The `ops` API and input sets beside DALI's."""

from __future__ import annotations

import types as python_types

import numpy as np
import pytest

import asyncdali
import asyncdali.fn
import asyncdali.ops

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed")
import nvidia.dali.fn  # noqa: E402
import nvidia.dali.ops  # noqa: E402, F401

LIBRARIES = (asyncdali, dali)


def pixels(lib):
    return lib.fn.external_source(lambda k: [np.full((2, 3, 3), 9 * k + j, np.uint8) for j in range(3)], layout="HWC")


def shape_of(result):
    """The nesting of a result of lists and nodes, as text."""
    return [shape_of(item) for item in result] if isinstance(result, (list, tuple)) else "node"


def nodes_of(result):
    return [node for item in result for node in nodes_of(item)] if isinstance(result, (list, tuple)) else [result]


def run(lib, call):
    """The nesting of a call's result, and the values of two iterations."""
    pipe = lib.Pipeline(batch_size=3, num_threads=2, device_id=None, seed=5)
    with pipe:
        result = call(lib)
        pipe.set_outputs(*nodes_of(result))
    pipe.build()
    return shape_of(result), [[[np.array(batch.at(k)).tolist() for k in range(3)] for batch in pipe.run()] for _ in range(2)]


CALLS = {
    "one set": lambda lib: lib.fn.cast([pixels(lib)], dtype=lib.types.INT16),
    "one set of a class": lambda lib: lib.ops.Cast(dtype=lib.types.INT16)([pixels(lib)]),
    "one set, two outputs": lambda lib: lib.fn.nonsilent_region([lib.fn.constant(fdata=[0.0, 1.0, 0.0, 1.0])], window_length=1),
    "two sets": lambda lib: lib.fn.cast([pixels(lib), pixels(lib) + 1], dtype=lib.types.INT16),
    "two sets, two outputs": lambda lib: lib.fn.nonsilent_region(
        [lib.fn.constant(fdata=[0.0, 1.0, 0.0, 1.0]), lib.fn.constant(fdata=[1.0, 1.0])], window_length=1
    ),
    "a set beside a node": lambda lib: lib.fn.cat([pixels(lib), lib.fn.flip(pixels(lib))], pixels(lib), axis=0),
    "draws share a seed": lambda lib: [*lib.fn.random.uniform([pixels(lib), pixels(lib)]), lib.fn.random.uniform()],
    "compose of two outputs": lambda lib: lib.ops.Compose(
        [lib.ops.PythonFunction(function=lambda a: (a, a + 1), num_outputs=2), lib.ops.Cat(axis=0)]
    )(pixels(lib)),
    "function by position": lambda lib: lib.ops.PythonFunction(lambda a: (a, a + 1), 2)(pixels(lib)),
    "function of capsules by position": lambda lib: lib.ops.DLTensorPythonFunction(lambda a: a, 1, "cpu", True, False)(pixels(lib)),
    "node given to the class": lambda lib: lib.ops.Flip(horizontal=lib.fn.random.coin_flip(seed=3))(pixels(lib)),
    "constants without dimensions": lambda lib: [
        lib.fn.constant(idata=[3], shape=[]), lib.fn.constant(fdata=1.5, shape=()), pixels(lib)[lib.fn.constant(idata=1, shape=[]) :]
    ],
    "node given to the class, called twice": lambda lib: (lambda flip: [flip(pixels(lib)), flip(pixels(lib), vertical=1)])(
        lib.ops.Flip(horizontal=lib.fn.random.coin_flip(seed=3))
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    ours, theirs = (run(lib, CALLS[name]) for lib in LIBRARIES)
    assert ours == theirs


def test_a_node_given_twice():
    for lib in LIBRARIES:
        with pytest.raises((ValueError, RuntimeError), match="horizontal"):
            run(lib, lambda lib: lib.ops.Flip(horizontal=lib.fn.random.coin_flip())(pixels(lib), horizontal=1))


def add_one(out, a):
    out[:] = a + 1


def test_numba_by_position():
    from nvidia.dali.plugin.numba.experimental import NumbaFunction as TheirNumbaFunction

    from asyncdali.plugin.numba.experimental import NumbaFunction

    def call(lib):
        kind, types = (NumbaFunction if lib is asyncdali else TheirNumbaFunction), [lib.types.UINT8]
        return kind(add_one, types, types, [3], [3])(pixels(lib))

    ours, theirs = (run(lib, call) for lib in LIBRARIES)
    assert ours == theirs


def names_of(module, root, prefix=""):
    """Dotted names of all callables in a module and its submodules."""
    found = set()
    for name in dir(module):
        item = getattr(module, name)
        if isinstance(item, python_types.ModuleType) and item.__name__.startswith(root) and not name.startswith("_"):
            found |= names_of(item, root, f"{prefix}{name}.")
        elif callable(item) and not name.startswith("_"):
            found.add(prefix + name)
    return found


def test_operators_have_the_same_names():
    regroupings = {"experimental.select", "experimental.mix", "experimental.batch_by", "experimental.ready"}
    for style, ours_alone in (("ops", {"experimental.NumbaFunction"}), ("fn", {"experimental.numba_function", *regroupings})):
        ours = names_of(getattr(asyncdali, style), f"asyncdali.{style}") - {"load_registry"}
        theirs = names_of(getattr(dali, style), f"nvidia.dali.{style}")
        assert ours - theirs == ours_alone


def test_automatic_names():
    def names(lib):
        pipe = lib.Pipeline(batch_size=1, num_threads=1, device_id=None)
        with pipe:
            x = lib.fn.constant(fdata=[1.0, 2.0], shape=[2, 1])
            boxes = lib.fn.constant(fdata=[0.1, 0.1, 0.2, 0.2], shape=[1, 4])
            made = [
                lib.fn.reductions.rms(x), lib.fn.bbox_paste(boxes, paste_x=0.1, paste_y=0.1, ratio=2.0), lib.fn.mfcc(x),
                lib.fn.dl_tensor_python_function(x, function=lambda a: a), lib.fn.transforms.scale(scale=[2.0, 2.0]),
            ]  # fmt: skip
        return [node.name for node in made]

    ours, theirs = map(names, LIBRARIES)
    assert ours == theirs
