"""Conditional execution beside DALI's: each program has one Python construct, or one kind of condition or result."""

# The programs are examples of what users may write, not of good style.
# ruff: noqa: B006, B007, C417, E402, E731, F841, PLW0127, RUF059
from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

dali = pytest.importorskip("nvidia.dali")
import nvidia.dali.fn
import nvidia.dali.types  # noqa: F401
from helpers import conditionals_elsewhere as elsewhere

import asyncdali

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def src(lib):
    """Two conditions and two vectors."""
    fn = lib.fn
    c = fn.external_source(
        lambda: [np.bool_([1, 0, 1, 1][k]) for k in range(4)],
    )
    d = fn.external_source(
        lambda: [np.bool_([0, 0, 1, 1][k]) for k in range(4)],
    )
    x = fn.external_source(lambda: [np.int32([k, k + 1, -k]) for k in range(4)])
    y = fn.external_source(lambda: [np.int32([10 * k, 1, 2]) for k in range(4)])
    return c, d, x, y


def nested_helper(lib):
    c, d, x, y = src(lib)

    def outer(a):
        def inner(b):
            if d:
                r = b * 3
            else:
                r = b
            return r

        if c:
            a = inner(a)
        else:
            a = inner(a + 1)
        return a

    return outer(x), outer(y)


def comprehension(lib):
    c, d, x, y = src(lib)
    out = [elsewhere.pick(c, v, v + 1) for v in (x, y)]
    m = {k: elsewhere.pick(d, v, -v) for k, v in enumerate((x, y))}
    return (*out, m[0], m[1])


def try_except(lib):
    c, d, x, y = src(lib)
    try:
        if c:
            z = x
        else:
            z = y
        raise KeyError("a")
    except KeyError:
        if d:
            w = z + 1
        else:
            w = z
    finally:
        q = 3
    return z, w + q


def try_in_branch(lib):
    c, d, x, y = src(lib)
    if c:
        try:
            z = x * 2
            raise ValueError
        except ValueError:
            z = z + 1
    else:
        z = y
    return (z,)


def while_loop(lib):
    c, d, x, y = src(lib)
    k = 0
    while k < 3:
        if c:
            x = x + k
        else:
            x = x - 1
        k += 1
    return (x,)


def while_in_branch(lib):
    c, d, x, y = src(lib)
    if c:
        k = 0
        while k < 3:
            x = x + y
            k += 1
    return (x,)


def for_break(lib):
    c, d, x, y = src(lib)
    for k in range(5):
        if k == 3:
            break
        if c:
            x = x + k
    return (x,)


def deco(f):
    @functools.wraps(f)
    def g(*a, **k):
        return f(*a, **k) + 1

    return g


@deco
def decorated(c, a, b):
    if c:
        return a
    else:
        return b


def decorators(lib):
    c, d, x, y = src(lib)
    return (decorated(c, x, y),)


def lambdas(lib):
    c, d, x, y = src(lib)
    f = lambda a: elsewhere.pick(c, a, a * 2)
    return f(x), (lambda q: elsewhere.early(d, q, q))(y)


def methods(lib):
    c, d, x, y = src(lib)
    b = elsewhere.Box(lib.fn)
    r = b.choose(c, x)
    return r, b.st(d, y), b.cm(c, y), b(c, x), elsewhere.Box.cm(d, x)


def nonlocals(lib):
    c, d, x, y = src(lib)
    total = x

    def add(v):
        nonlocal total
        total = total + v
        return total

    add(y)
    if c:
        r = add(y) if False else total + 1
    else:
        r = total
    return total, r


def closures(lib):
    c, d, x, y = src(lib)

    def make(k):
        def f(v):
            if c:
                v = v + k
            else:
                v = v - k
            return v

        return f

    fs = [make(k) for k in range(3)]
    for f in fs:
        x = f(x)
    return (x,)


def othermodule(lib):
    c, d, x, y = src(lib)
    return elsewhere.pick(c, x, y), elsewhere.early(d, x, y)


def partial(lib):
    c, d, x, y = src(lib)
    return (functools.partial(elsewhere.pick, c)(x, b=y),)


def with_stmt(lib):
    c, d, x, y = src(lib)
    with contextlib.nullcontext(x) as z:
        if c:
            z = z + 1
    return (z,)


def with_in_branch(lib):
    c, d, x, y = src(lib)
    if c:
        with contextlib.nullcontext(y) as z:
            z = z + 1
    else:
        z = x
    return (z,)


def walrus(lib):
    c, d, x, y = src(lib)
    if p := c:
        z = x
    else:
        z = y
    return z, p


def starred(lib):
    c, d, x, y = src(lib)
    a, *rest = (x, y, x)
    if c:
        a, rest = rest[0], [a, a]
    else:
        a, rest = a, [y, y]
    return a, *rest


def boolops(lib):
    c, d, x, y = src(lib)
    if (c and not d) or (x[0] > 2 and y[0] < 100):
        z = x
    elif not c:
        z = y
    else:
        z = x + y
    return z, c and d, c or d, not c


def chained(lib):
    c, d, x, y = src(lib)
    z = x
    if 0 < x[0] <= 2:
        z = y
    return (z,)


def recursion(lib):
    c, d, x, y = src(lib)

    def rec(k, v):
        if k == 0:
            return v
        if c:
            v = v + k
        return rec(k - 1, v)

    return (rec(3, x),)


def dicts(lib):
    c, d, x, y = src(lib)
    o = {"a": x, "b": [y, x]}
    if c:
        o = {"a": y, "b": [x, x]}
    return o["a"], *o["b"]


def item_assign(lib):
    c, d, x, y = src(lib)
    o = {"a": x, "b": [y, x]}
    if c:
        o["a"] = y
        o["b"] = [x, y]
    return o["a"], *o["b"]


def augmented(lib):
    c, d, x, y = src(lib)
    if c:
        x += y
        x *= 2
    else:
        x -= 1
    return (x,)


def nested_if(lib):
    c, d, x, y = src(lib)
    if c:
        if d:
            z = x
        else:
            z = y
        w = z + 1
    else:
        if d:
            z = y + 1
            w = x
        elif x[0] == 1:
            z = x - 1
            w = y
        else:
            z = x
            w = y
    return z, w


def return_in_loop(lib):
    c, d, x, y = src(lib)

    def f():
        for k in range(3):
            if k == 1:
                return x
        return y

    return (f(),)


def kwonly(lib):
    c, d, x, y = src(lib)

    def f(a, /, b=None, *args, k, **kw):
        if c:
            r = a + b
        else:
            r = a - k
        return r, kw["z"]

    return f(x, y, k=y, z=x)


def loop_over_nodes(lib):
    c, d, x, y = src(lib)
    acc = 0
    for n in [x, y, x]:
        if c:
            acc = acc + n
        else:
            acc = n
    return (acc,)


def del_var(lib):
    c, d, x, y = src(lib)
    if c:
        t = x
        z = t + 1
        del t
    else:
        z = y
    return (z,)


def default_args(lib):
    c, d, x, y = src(lib)

    def f(v, k=[1, 2], *, m=3):
        if c:
            return v + k[1] + m
        else:
            return v

    return f(x), f(y, m=0)


def unused_branch_var(lib):
    c, d, x, y = src(lib)
    if c:
        a = x
        tmp = a * 2
        z = tmp
    else:
        z = x
    return (z,)


def constants_in_branches(lib):
    c, d, x, y = src(lib)
    if c:
        k = 5
    else:
        k = 7
    if d:
        f = 1.5
    else:
        f = np.float32(2)
    return x * k, f


def passes(lib):
    c, d, x, y = src(lib)
    if c:
        pass
    else:
        x = y
    return (x,)


def generator(lib):
    c, d, x, y = src(lib)
    gen = (v + 1 for v in (x, y))
    a, b = gen
    if c:
        a = b
    return a, b


def class_in_function(lib):
    c, d, x, y = src(lib)

    class K:
        v = 4

        def go(self, a):
            if c:
                a = a + self.v
            return a

    return (K().go(x),)


def func_table(lib):
    c, d, x, y = src(lib)
    table = {"p": elsewhere.pick, "e": elsewhere.early}
    return tuple(table[n](c, x, y) for n in sorted(table))


def mapped(lib):
    c, d, x, y = src(lib)
    return tuple(map(lambda v: elsewhere.pick(c, v, v + 1), (x, y)))


def globals_(lib):
    c, d, x, y = src(lib)
    global _G
    _G = x
    if c:
        _G = y
    return (_G,)


def P(lib, v, dt):
    return lib.fn.external_source(lambda: [dt(k) for k in v])


def one_sided(lib):
    c, d, x, y = src(lib)
    if c:
        z = x
    return (z,)


def int_pred(lib):
    c, d, x, y = src(lib)
    p = P(lib, [0, 1, 2, -1], np.int32)
    if p:
        z = x
    else:
        z = y
    return (z,)


def float_pred(lib):
    c, d, x, y = src(lib)
    p = P(lib, [0, 0.5, np.nan, -0.0], np.float32)
    if p:
        z = x
    else:
        z = y
    return (z,)


def float_not(lib):
    p = P(lib, [0, 0.5, np.nan, -0.0], np.float32)
    return (not p,)


def int_and(lib):
    p = P(lib, [0, 1, 2, -1], np.int32)
    q = P(lib, [1, 1, 0, 0], np.bool_)
    return p and q, q or p


def shape1_pred(lib):
    c, d, x, y = src(lib)
    p = lib.fn.external_source(lambda: [np.bool_([1]), np.bool_([0])] * 2)
    if p:
        z = x
    else:
        z = y
    return (z,)


def vec_pred(lib):
    c, d, x, y = src(lib)
    if x:
        z = x
    else:
        z = y
    return (z,)


def vec_and(lib):
    c, d, x, y = src(lib)
    return (c and x,)


def diff_types(lib):
    c, d, x, y = src(lib)
    if c:
        z = x
    else:
        z = lib.fn.cast(y, dtype=lib.types.FLOAT)
    return (z,)


def diff_dims(lib):
    c, d, x, y = src(lib)
    if c:
        z = x
    else:
        z = y[0]
    return (z,)


def diff_layout(lib):
    c, d, x, y = src(lib)
    if c:
        z = lib.fn.reshape(x, layout="C")
    else:
        z = lib.fn.reshape(y, layout="H")
    return (z,)


def diff_shapes(lib):
    c, d, x, y = src(lib)
    if c:
        z = x[:1]
    else:
        z = y
    return (z,)


def struct_mismatch(lib):
    c, d, x, y = src(lib)
    if c:
        z = (x, y)
    else:
        z = x
    return z


def list_len(lib):
    c, d, x, y = src(lib)
    if c:
        z = [x, y]
    else:
        z = [x]
    return tuple(z)


def none_one(lib):
    c, d, x, y = src(lib)
    if c:
        z = None
    else:
        z = x
    return (z,)


def none_both(lib):
    c, d, x, y = src(lib)
    z = None
    if c:
        z = None
        w = x
    else:
        w = y
    return (w,)


def return_one(lib):
    c, d, x, y = src(lib)

    def f():
        if c:
            return x

    return (f(),)


def break_in_branch(lib):
    c, d, x, y = src(lib)
    for k in range(3):
        if c:
            break
        x = x + 1
    return (x,)


def while_node(lib):
    c, d, x, y = src(lib)
    while c:
        x = x + 1
    return (x,)


def for_node(lib):
    c, d, x, y = src(lib)
    for v in x:
        pass
    return (x,)


def continue_in_branch(lib):
    c, d, x, y = src(lib)
    for k in range(3):
        if c:
            continue
        x = x + k
    return (x,)


def const_vs_node(lib):
    c, d, x, y = src(lib)
    if c:
        z = 1
    else:
        z = x[0]
    return (z,)


def const_float_int(lib):
    c, d, x, y = src(lib)
    if c:
        z = 1
    else:
        z = 2.5
    return (z,)


def const_bool(lib):
    c, d, x, y = src(lib)
    if c:
        z = True
    else:
        z = False
    return (z,)


def const_np(lib):
    c, d, x, y = src(lib)
    if c:
        z = np.array([1, 2])
    else:
        z = np.array([3, 4])
    return (z,)


def const_same(lib):
    c, d, x, y = src(lib)
    if c:
        z = 3
    else:
        z = 3
    return z, x * z


def string_same(lib):
    c, d, x, y = src(lib)
    if c:
        z = "a"
    else:
        z = "b"
    return (x,)


def rng_in_branch(lib):
    c, d, x, y = src(lib)
    if c:
        z = lib.fn.random.uniform(range=(0.0, 1.0), seed=3)
    else:
        z = lib.fn.random.normal(seed=4)
    return z, lib.fn.random.uniform(seed=5)


def rng_inputs_branch(lib):
    c, d, x, y = src(lib)
    f = lib.fn.cast(x, dtype=lib.types.FLOAT)
    if c:
        z = lib.fn.noise.gaussian(f, seed=3)
        if d:
            z = lib.fn.noise.gaussian(z, seed=8)
    else:
        z = lib.fn.random.normal(f, seed=4)
    return (z,)


def auto_seeds(lib):
    c, d, x, y = src(lib)
    f = lib.fn.cast(x, dtype=lib.types.FLOAT)
    a = lib.fn.random.uniform()
    if c:
        z = lib.fn.noise.gaussian(f) + lib.fn.random.uniform()
    else:
        z = lib.fn.random.normal(f) * a
    return z, lib.fn.random.uniform(), a


def arg_in_branch(lib):
    c, d, x, y = src(lib)
    im = lib.fn.external_source(lambda: [np.arange(24, dtype=np.uint8).reshape(2, 4, 3) + k for k in range(4)], layout="HWC")
    ang = lib.fn.cast(x[0], dtype=lib.types.FLOAT)
    if c:
        im = lib.fn.brightness(im, brightness=ang * 0.25 + 1)
    elif d:
        im = lib.fn.flip(im, horizontal=lib.fn.random.coin_flip(seed=2))
    return (im,)


def reader_like(lib):
    c, d, x, y = src(lib)
    if c:
        z = lib.fn.external_source(lambda: [np.int32([k] * 3) for k in range(4)])
    else:
        z = x
    return (z,)


def constant_op(lib):
    c, d, x, y = src(lib)
    if c:
        z = lib.types.Constant(7)
    else:
        z = lib.fn.constant(idata=[9], shape=[])
    return (z,)


def full_like(lib):
    c, d, x, y = src(lib)
    if c:
        z = lib.fn.zeros_like(x)
    else:
        z = lib.fn.ones(shape=[3], dtype=lib.types.INT32)
    return (z,)


def reductions(lib):
    c, d, x, y = src(lib)
    if lib.fn.reductions.max(x) > 2:
        z = lib.fn.reductions.sum(x)
    else:
        z = lib.fn.reductions.sum(y)
    return (z,)


def permute2(lib):
    c, d, x, y = src(lib)
    if c:
        z = lib.fn.permute_batch(x, indices=[2, 1, 0])
    else:
        z = y
    return (z,)


def pyfunc(lib):
    c, d, x, y = src(lib)
    if c:
        z = lib.fn.python_function(x, function=lambda a: a * 2)
    else:
        z = lib.fn.python_function(y, function=lambda a: a + 1)
    return (z,)


def pyfunc_batch(lib):
    c, d, x, y = src(lib)
    if c:
        z = lib.fn.python_function(x, function=lambda a: [v * len(a) for v in a], batch_processing=True)
    else:
        z = y
    return (z,)


def get_prop(lib):
    c, d, x, y = src(lib)
    if c:
        z = x.shape()
    else:
        z = lib.fn.shapes(y) if hasattr(lib.fn, "shapes") else y.shape()
    return (z,)


def isinst(lib):
    c, d, x, y = src(lib)
    if isinstance(c, int):
        z = x
    else:
        z = y
    if x is None or c is not None:
        z = z + 1
    return (z,)


def plainconds(lib):
    c, d, x, y = src(lib)
    k = 3
    if k > 2 and c:
        z = x
    else:
        z = y
    if not k or d:
        z = z + 1
    w = k and c
    v = 0 or d
    return z, w, v


def cmp_chain_plain(lib):
    c, d, x, y = src(lib)
    if 1 < 2 < 3:
        z = x
    if 0 < x[1] < 3 and y[0] >= 0:
        z = y
    return (z,)


def eq_const(lib):
    c, d, x, y = src(lib)
    if x[0] == 2:
        z = x
    elif x[0] != 1:
        z = y
    else:
        z = x + y
    return (z,)


def in_op(lib):
    c, d, x, y = src(lib)
    if c in (c, d):
        z = x
    else:
        z = y
    return (z,)


def deep(lib):
    c, d, x, y = src(lib)
    for k in range(4):
        if c:
            if d:
                x = x + k
            elif x[0] > k:
                x = x * 2
        else:
            if x[1] % 2 == 0:
                y = y + x
    return x, y


def global_assign_obj(lib):
    c, d, x, y = src(lib)

    class Box:
        pass

    o = Box()
    o.v = x
    if c:
        o.v = y
    return (o.v,)


def same_node(lib):
    c, d, x, y = src(lib)
    if c:
        z = x
    else:
        z = x
    return (z,)


def pred_used(lib):
    c, d, x, y = src(lib)
    if c:
        z = c
    else:
        z = d
    return (z,)


def pred_reassigned(lib):
    c, d, x, y = src(lib)
    if c:
        c = d
    if c:
        x = y
    return x, c


def stack_in(lib):
    c, d, x, y = src(lib)
    if c:
        z = lib.fn.stack(x, y)
    else:
        z = lib.fn.cat(x[lib.newaxis], y[lib.newaxis])
    return (z,)


def empty_branch_all_false(lib):
    c = P(lib, [0, 0, 0, 0], np.bool_)
    d0, d1, x, y = src(lib)
    if c:
        z = lib.fn.resize(lib.fn.reshape(lib.fn.cast(x, dtype=lib.types.UINT8), shape=[1, 3, 1], layout="HWC"), size=[2.0, 2.0])
    else:
        z = lib.fn.reshape(lib.fn.cast(y, dtype=lib.types.UINT8), shape=[1, 3, 1], layout="HWC")
    return (z,)


_HELPERS = {"src", "P"}
PROGRAMS: list[Callable[..., Any]] = [
    value
    for name, value in list(globals().items())
    if isinstance(value, FunctionType)
    and value.__module__ == __name__
    and value.__code__.co_varnames[:1] == ("lib",)
    and name not in _HELPERS
]


def outcome(lib, program):
    """The element types and values of two iterations, or the type of the error."""
    try:
        pipe = lib.pipeline_def(program, enable_conditionals=True)(lib, batch_size=4, num_threads=1, device_id=None, seed=5)
        pipe.build()
        return [
            [
                [(np.asarray(output.at(k)).dtype.name, np.asarray(output.at(k)).tolist()) for k in range(len(output))]
                for output in pipe.run()
            ]
            for _ in range(2)
        ]
    except Exception as error:  # The type of any exception is compared.
        return type(error)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_construct(program):
    assert outcome(asyncdali, program) == outcome(dali, program)
