"""Conditional execution: rewriting of the user's code, contents of branches, merging, and refusals."""

from __future__ import annotations

import functools
import logging

import numpy as np
import pytest
from helpers.conditional_programs import Program, library_names, load, run, run_plain
from helpers.marks import seeds
from helpers.pipelines import values

import asyncdali
import asyncdali.fn
import asyncdali.types
from asyncdali import fn, pipeline_def, types
from asyncdali.graph.rewrite import convert
from asyncdali.graph.rewrite.convert import converted
from asyncdali.pipeline import do_not_convert

CONDITION = [True, False, True, False, True, False]
OTHER = [True, True, False, False, True, False]
conditional = pipeline_def(batch_size=6, num_threads=1, device_id=None, seed=7, enable_conditionals=True)


def fed(data, dtype=None):
    return fn.external_source(lambda k: np.array(data, dtype), batch=True)


def c():
    return fed(CONDITION)


def d():
    return fed(OTHER)


def n():
    return fed([0, 1, 2, 3, 4, 5], np.int32)


def result(graph, *args):
    """The outputs of a graph function in one iteration."""
    pipeline = conditional(graph)(*args)
    try:
        found = values(pipeline.run())
    finally:
        pipeline.close()
    return found[0] if len(found) == 1 else found


# ---------------------------------------------------------------------------------------------------------------------- if


def test_samples_are_selected():
    def graph():
        x, y = n(), fn.copy(7)
        if c():
            y = x + 10
        return y

    assert result(graph) == [10, 7, 12, 7, 14, 7]


def test_elif_and_nesting():
    def graph():
        x, first, second = n(), c(), d()
        if first:
            if second:
                y = x
            else:
                y = x + 10
        elif second:
            y = x + 20
        else:
            y = 99
        return y

    assert result(graph) == [0, 21, 12, 99, 4, 99]


def test_variables_that_are_not_read_later_may_differ():
    def graph():
        if c():
            scratch = "text"
            y = len(scratch)
        else:
            scratch = [None, object()]
            y = 0
        scratch = 3
        return y, scratch

    assert result(graph) == [[4, 0] * 3, [3] * 6]


def test_a_branch_gets_only_its_samples():
    seen = []

    def graph():
        x = n()
        if c():
            fn.python_function(x, function=lambda value: seen.append(int(value)), num_outputs=0)
        return x

    assert result(graph) == [0, 1, 2, 3, 4, 5]
    assert seen[:3] == [0, 2, 4]


def test_a_python_function_is_not_called_without_samples():
    called = []

    def graph():
        x = n()
        if fed([False] * 6):
            x = fn.python_function(x, function=lambda value: called.append(1) or value)
        return x

    assert result(graph) == [0, 1, 2, 3, 4, 5] and called == []


def test_sources_in_a_branch_are_asked_for_the_whole_batch():
    sizes = []

    def source(info):
        sizes.append(info)
        return np.arange(6, dtype=np.int32) * 10

    def graph():
        x = n()
        if c():
            x = fn.external_source(source)
        return x

    assert result(graph) == [0, 1, 20, 3, 40, 5] and sizes[:2] == [0, 1]


def test_draws_in_a_branch_equal_draws_outside():
    def outside():
        return fn.random.uniform(seed=3)

    def inside():
        y = -2.0
        if c():
            y = fn.random.uniform(seed=3)
        return y

    draws = result(outside)
    assert result(inside) == [draws[0], -2, draws[2], -2, draws[4], -2]


def test_batch_permutation_has_the_size_of_its_branch():
    def graph():
        x = n()
        if c():
            x = fn.permute_batch(x, indices=fn.batch_permutation(seed=4, no_fixed_points=True))
        return x

    found = result(graph)
    assert found[1::2] == [1, 3, 5] and sorted(found[::2]) == [0, 2, 4] and found[::2] != [0, 2, 4]


@pytest.mark.parametrize("kind, wanted", [(np.uint8, [5, 0] * 3), (np.float32, [5, 0] * 3), (np.int64, [5, 0] * 3)])
def test_any_number_is_a_condition(kind, wanted):
    def graph():
        if fed([2, 0, 1, 0, 255, 0], kind):
            y = 5
        else:
            y = 0
        return y

    assert result(graph) == wanted


def test_conditions_are_scalars_on_the_cpu():
    def rank1():
        y = 0
        if fed([[1]] * 6):
            y = 1
        return y

    with pytest.raises(RuntimeError, match=r"restricted to scalar \(0-d tensors\)"):
        result(rank1)

    def on_gpu():
        y = 0
        if c().gpu():
            y = 1
        return y

    with pytest.raises(ValueError, match=r"Invalid device \"gpu\" for argument 'predicate'"):
        result(on_gpu)


def test_without_conditionals_the_error_names_the_flag():
    with pytest.raises(TypeError, match=r"enable_conditionals"):
        pipeline_def(batch_size=6, num_threads=1)(lambda: 1 if c() else 0)()


def test_moving_between_devices_in_a_branch():
    def graph():
        x = fn.copy(n()).gpu()
        if c():
            x = fn.copy(x.cpu()).gpu()
        return x, x.cpu()

    pipeline = conditional(graph)(device_id=0)
    assert values(pipeline.run()) == [[0, 1, 2, 3, 4, 5]] * 2


# ------------------------------------------------------------------------------------------------------------------- merging


def test_structures_are_merged():
    def graph():
        if c():
            y = {"a": (n(), [1, 2.5]), "b": None}
        else:
            y = {"b": None, "a": (3, [n(), 4.5])}
        assert y["b"] is None
        return y["a"][0], y["a"][1][0], y["a"][1][1]

    assert result(graph) == [[0, 3, 2, 3, 4, 3], [1, 1, 1, 3, 1, 5], [2.5, 4.5] * 3]


def test_structures_must_be_the_same():
    def graph(first, second):
        if c():
            y = first
        else:
            y = second
        return fn.copy(y)

    for first, second in [((1, 2), 1), ([1, 2], (1, 2)), ({"a": 1}, {"b": 1}), (None, 1), ((1,), (1, 2))]:
        with pytest.raises(ValueError, match=r"Divergent data found.*'y'.*nesting structure"):
            conditional(graph)(first, second)
    with pytest.raises(TypeError, match=r"ScalarConstant"):
        conditional(graph)(types.Constant(1), types.Constant(2))
    with pytest.raises(TypeError, match=r"'y'.*is a object.*DataNodes, numbers and arrays"):
        conditional(graph)(object(), 1)
    with pytest.raises((ValueError, RuntimeError), match=r"device"):
        conditional(graph)(fn.copy(1).gpu(), fn.copy(1))


def test_types_diverge_when_run_and_only_where_both_have_samples():
    def graph(condition):
        if fed(condition):
            y = 1
        else:
            y = 2.5
        return y

    with pytest.raises(RuntimeError, match=r"Divergent data found in different branches"):
        result(graph, CONDITION)
    assert result(graph, [True] * 6) == [1] * 6 and result(graph, [False] * 6) == [2.5] * 6


def test_variables_need_a_value_in_both_branches():
    def missing_else():
        if c():
            y = 1
        return y

    def missing_if():
        if c():
            pass
        else:
            y = 1
        return y

    with pytest.raises(RuntimeError, match=r"Variable 'y' must also be initialized in the `else` branch"):
        result(missing_else)
    with pytest.raises(RuntimeError, match=r"Variable 'y' must also be initialized in the `if` branch"):
        result(missing_if)


def test_items_and_attributes_are_merged():
    class Box:
        pass

    def graph():
        box = Box()
        box.x, table, row = n(), {"a": n()}, [n(), n()]
        if c():
            box.x = box.x + 10
            table["a"] += 20
            row[0], table["a"] = table["a"], row[0]
        else:
            row[-1] = 5
        return box.x, table["a"], row[0], row[1]

    assert result(graph) == [[10, 1, 12, 3, 14, 5], [0, 1, 2, 3, 4, 5], [20, 1, 22, 3, 24, 5], [0, 5, 2, 5, 4, 5]]


def test_items_written_by_helpers_and_in_new_objects():
    def put(table, value):
        table["a"] = value

    def graph():
        table = {"a": n()}
        if c():
            fresh = {}
            fresh["b"] = n() + 1
            fresh["c"] = [fresh["b"]]
            put(table, fresh["c"][0])
        return table["a"]

    assert result(graph) == [1, 1, 3, 3, 5, 5]


def test_an_item_needs_a_value_in_both_branches():
    def graph():
        table = {}
        if c():
            table["a"] = n()
        return table["a"]

    with pytest.raises(RuntimeError, match=r"'dict\['a'\]' must also be initialized in the `else` branch"):
        result(graph)


# ------------------------------------------------------------------------------------------------------------------ escaping


def escapes_by_append():
    kept = []
    if c():
        kept.append(n() + 1)
    return kept[0]


def escapes_by_append_of_a_draw():
    kept = []
    if c():
        kept.append(fn.random.uniform())
    return fn.copy(kept[0])


def escapes_by_nonlocal():
    value = n()

    def change():
        nonlocal value
        value = value + 1

    if c():
        change()
    return value + 1


def escapes_by_argument():
    kept = []
    if c():
        kept.append(n() * 2)
    return fn.random.uniform(range=[0, 1]), fn.cast(n(), dtype=types.INT64), fn.random.normal(mean=kept.pop())


def escapes_to_the_other_branch():
    kept = []
    if c():
        kept.append(n() * 2)
        y = 1
    else:
        y = kept[0]
    return y


@pytest.mark.parametrize(
    "graph",
    [escapes_by_append, escapes_by_append_of_a_draw, escapes_by_nonlocal, escapes_by_argument, escapes_to_the_other_branch],
)
def test_nodes_cannot_leave_their_branch(graph):
    with pytest.raises(RuntimeError, match=r"was made in a branch of an `if` on nodes.*cannot be used outside(?s:.*)test_conditionals.py"):
        result(graph)


def test_a_caught_exception_ends_the_branch():
    def graph():
        try:
            if c():
                raise KeyError
        except KeyError:
            return n()
        return 5

    assert result(graph) == [0, 1, 2, 3, 4, 5]


def test_match_and_try_with_else():
    """Functions with `match`, and with `try` and `else`, are rewritten. DALI does not rewrite them."""

    def graph():
        x = n()
        for mode in ("first", "second"):
            match mode:
                case "first":
                    if c():
                        x = x + 100
                case _:
                    try:
                        pass
                    except ValueError:
                        x = x - 1
                    else:
                        if d():
                            x = x * 2
        return x

    assert result(graph) == [(k + 100 * int(a)) * (1 + int(b)) for k, (a, b) in enumerate(zip(CONDITION, OTHER, strict=True))]


# ------------------------------------------------------------------------------------------------------- returns and loops


def test_early_returns_from_anywhere():
    def helper(x, first, second):
        if first:
            if second:
                return x + 100
            x = x + 10
        elif x > 2:
            return x + 1000
        for k in range(3):
            if x == k:
                continue
            if x > 12:
                return x + 5000
            x = x + 1
        return x

    def graph():
        return helper(n(), c(), d())

    def plain(x, first, second):
        return helper(x, first, second)

    assert result(graph) == [plain(*row) for row in zip(range(6), CONDITION, OTHER)]


def returns_and_continues(a, b):
    for _ in range(2):
        if a == b:
            return b
        elif b > 6:
            a = b + 3
        else:
            continue
        b = a + 4
    return a


def items_beside_continue(a, b):
    items = {"a": a}
    for _ in range(2):
        if items["a"] == b:
            return b
        elif b > 6:
            items["a"] = b + 3
        else:
            continue
        b = a + 4
    return items["a"] + b


def returns_in_both_rounds(a, b):
    for _ in range(2):
        if a > 4:
            return a
        if b == 4:
            if a < 5:
                return a + 100
            a = a + 1
        elif a < 2:
            continue
        a = a + 10
    return a


@pytest.mark.parametrize("function", [returns_and_continues, returns_in_both_rounds, items_beside_continue])
def test_returns_beside_continue(function):
    """Some samples return from the function, some skip the rest of the loop's body, and others continue. At the end all are merged."""
    others = [7, 1, 9, 1, 4, 4]
    wanted = [function(a, b) for a, b in zip(range(6), others)]
    assert result(lambda: function(n(), fed(others, np.int32))) == wanted


def test_missing_return():
    def helper(x):
        if c():
            return x

    with pytest.raises(RuntimeError, match=r"must also have a return statement"):
        result(lambda: helper(n()))


def test_a_bare_return_gives_none():
    def helper(x):
        if c():
            return
        assert x is not None

    assert result(lambda: (helper(n()), n())[1]) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("seed", seeds(16, 200))
def test_random_programs_equal_plain_python(seed, tmp_path):
    program = Program(seed, plain=True, depth=2)
    wanted = run_plain(program.text, tmp_path / "plain.py")
    found = run(asyncdali, load(program.text, tmp_path / "graph.py", library_names(asyncdali)))
    assert [[[value for _, value in column] for column in outputs] for outputs in found] == wanted, program.text


def test_loops_over_python_values():
    def graph():
        x = n()
        for k in range(4):
            if k == 3:
                break
            if k == 0:
                continue
            if c():
                x = x + k
            else:
                for _ in range(2):
                    x = x - 1
        else:
            x = x * 100
        return x

    assert result(graph) == [3, -3, 5, -1, 7, 1]


def test_errors_of_while_and_break_name_an_alternative():
    def loop():
        x = n()
        while x < 3:
            x = x + 1
        return x

    def leave():
        for _ in range(3):
            if c():
                break
        return n()

    def comprehension():
        return [k for k in range(3) if c()]

    with pytest.raises(TypeError, match=r"conditional context.*`while`.*Use `for` over a range"):
        result(loop)
    with pytest.raises(TypeError, match=r"conditional context.*`break`.*flag"):
        result(leave)
    with pytest.raises(TypeError, match=r"conditional context.*comprehension"):
        result(comprehension)


def test_builtins_refuse_nodes_as_conditions():
    for graph in (lambda: bool(c()), lambda: any([c(), d()]), lambda: all([c()]), lambda: max(n(), n() + 1)):
        with pytest.raises(TypeError, match=r"conditional context"):
            result(graph)


class Sized:
    def __init__(self, size):
        self.size = size

    @property
    def doubled(self):
        return self.size * 2 if self.size > 2 else self.size

    def __getitem__(self, least):
        if self.size > least:
            return self.size
        return -self.size

    def __add__(self, other):
        return self.size + other if self.size > 2 else self.size


class Chosen:
    def __init__(self, size):
        self.size = size * 2 if size > 2 else size


@pytest.mark.parametrize(
    "use", [lambda x: Sized(x).doubled, lambda x: Sized(x)[2], lambda x: Sized(x) + 1, Chosen, lambda x: list(map(bool, [x]))]
)
def test_methods_that_python_calls_implicitly_are_not_rewritten(use):
    """Methods such as `__len__`, which Python calls implicitly, stay as they are. DALI does not rewrite them, either."""
    message = r"conditional context.*methods that Python calls implicitly \(`__init__`, properties, operators\).*own, and call that"
    with pytest.raises(TypeError, match=message):
        result(lambda: use(n()))


# -------------------------------------------------------------------------------------------------------------- expressions


def test_and_or_not():
    def graph():
        return c() and d(), c() or d(), not n(), not (c() and (d() or not d())), c() and True, True and c(), 0 or d()

    both = [a and b for a, b in zip(CONDITION, OTHER)]
    either = [a or b for a, b in zip(CONDITION, OTHER)]
    inverse = [not a for a in CONDITION]
    assert result(graph) == [both, either, [True] + [False] * 5, inverse, CONDITION, CONDITION, OTHER]


def test_and_or_accept_only_scalar_booleans():
    for graph in (lambda: c() and 1, lambda: n() and c(), lambda: c() or n(), lambda: fed([[True]] * 6) or c()):
        with pytest.raises(RuntimeError, match=r"restricted to scalar"):
            result(graph)
    for graph, side in ((lambda: c().gpu() and d(), "left"), (lambda: c() or d().gpu(), "right"), (lambda: c() and d().gpu(), "right")):
        for kind in (ValueError, RuntimeError):
            with pytest.raises(kind, match=rf"Got a GPU input as the {side} argument in logical expression"):
                result(graph)


def test_not_of_data_on_a_gpu():
    def graph():
        opposite = not c().gpu()
        if c():
            inner = not d().gpu()
        else:
            inner = d().gpu()
        return opposite.cpu(), inner.cpu()

    expected = [not a for a in CONDITION], [not b if a else b for a, b in zip(CONDITION, OTHER)]
    assert result(graph) == list(expected)


def test_the_right_side_is_evaluated_where_it_is_needed():
    def graph():
        table = fed(np.arange(18).reshape(6, 3) > 6)
        x = n()
        return x < 3 and table[fn.reshape(x, shape=[])], x > 2 or table[x]

    assert result(graph) == [[False, False, True, False, False, False], [False, False, True, True, True, True]]


def test_chained_comparisons():
    def graph():
        x = n()
        return 0 < x < 3, not 1 <= x <= x <= 4

    assert result(graph) == [[0 < x < 3 for x in range(6)], [not 1 <= x <= 4 for x in range(6)]]


def test_conditional_expressions():
    def graph():
        x = n()
        inner = [(x + 10 if x > k else x) for k in range(2)]
        pick = lambda a: a if c() else (5 if d() else a + 1)  # noqa: E731
        return x if c() else 7, pick(x), inner[0], inner[1]

    assert result(graph) == [[0, 7, 2, 7, 4, 7], [0, 5, 2, 4, 4, 6], [0, 11, 12, 13, 14, 15], [0, 1, 12, 13, 14, 15]]


def test_assertions_are_checked_when_run():
    def holds():
        x = n()
        if x > 2:
            assert x > 2, "never"
        return x

    assert result(holds) == [0, 1, 2, 3, 4, 5]

    def fails():
        x = n()
        assert x < 5, "too large"
        return x

    with pytest.raises(RuntimeError, match=r"(?s)test_conditionals.py.*AssertionError: too large"):
        result(fails)

    def plain():
        assert len("abc") == 2, "as ever"

    with pytest.raises(AssertionError, match=r"as ever"):
        result(plain)


# ---------------------------------------------------------------------------------------------------------- rewritten constructs


class Helper:
    bias = 1

    def __init__(self, amount):
        self.__amount = amount

    def method(self, x):
        if c():
            x = x + self.__amount
        return x

    def __call__(self, x):
        return self.method(x)

    @classmethod
    def of_class(cls, x):
        return x if c() else cls.bias

    @staticmethod
    def static(x, by=50):
        return x + by if c() else x


class Derived(Helper):
    def method(self, x):
        return super().method(x) + 100 if d() else super().method(x)


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@decorated
def with_decorator(x, *, by=7):
    if c():
        x = x + by
    return x


def test_everything_that_is_called_is_rewritten():
    def graph():
        x = n()
        bias = 30

        def inner(value, by=2):
            if c():
                value = value + by + bias
            return value

        return (
            Helper(10).method(x), Helper(20)(x), Helper.of_class(x), Helper.static(x), functools.partial(Helper.static, by=60)(x),
            Derived(1).method(x), with_decorator(x), inner(x), (lambda v: v if d() else 0)(x),
        )  # fmt: skip

    def add(by, other=0):
        return [k + by if CONDITION[k] else k + other for k in range(6)]

    assert result(graph) == [
        add(10), add(20), [0, 1, 2, 1, 4, 1], add(50), add(60),
        [101, 101, 3, 3, 105, 5], add(7), add(32), [0, 1, 0, 0, 4, 0],
    ]  # fmt: skip


def test_methods_as_graph_functions():
    class Maker:
        amount = 3

        @pipeline_def(batch_size=6, num_threads=1, enable_conditionals=True)
        def made(self, more):
            return n() + self.amount if c() else n() + more

    assert values(Maker().made(more=10).run()) == [[3, 11, 5, 13, 7, 15]]


def test_lambdas_in_one_line_are_distinguished():
    one, two = (lambda x: x if c() else 1), (lambda x: x if c() else 2)
    assert result(lambda: (one(n()), two(n()))) == [[0, 1, 2, 1, 4, 1], [0, 2, 2, 2, 4, 2]]


def test_closures_are_shared():
    count = 0

    def step(x):
        nonlocal count
        count += 1
        if c():
            x = x + count
        return x

    def graph():
        return step(step(n()))

    assert result(graph) == [3, 1, 5, 3, 7, 5] and count == 2


def test_globals_and_nonlocals_of_a_branch_are_merged():
    def graph():
        global _written
        value = n()

        def change(x):
            nonlocal value
            if x:
                value = value + 10

        change(c())
        if d():
            _written = n() + 1
        else:
            _written = 50
        return value, _written

    assert result(graph) == [[10, 1, 12, 3, 14, 5], [1, 2, 50, 50, 5, 50]]


def test_marked_functions_are_not_rewritten():
    @do_not_convert
    def bare(x):
        return x if x is not None and 1 > 0 and not isinstance(x, int) else 0

    @asyncdali.pipeline.do_not_convert()
    def asks(x):
        if x > 2:
            return x
        return x

    assert result(lambda: bare(n())) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(TypeError, match=r"conditional context"):
        result(lambda: asks(n()))
    assert converted(bare) is bare
    with pytest.raises(ValueError, match=r"pipeline definition"):
        do_not_convert(conditional(lambda: 1))
    with pytest.raises(ValueError, match=r"do_not_convert"):
        result(bare)
    assert converted(do_not_convert(functools.partial(asks, 1))).func is asks


def test_functions_without_source_are_left_alone(caplog):
    names = {}
    exec("def hidden(x):\n    return x\ndef asks(x):\n    return 1 if x else 2\n", names)
    with caplog.at_level(logging.WARNING):
        assert result(lambda: names["hidden"](n())) == [0, 1, 2, 3, 4, 5]
    assert "hidden" in caplog.text and "runs as it is" in caplog.text
    with pytest.raises(TypeError, match=r"conditional context"):
        result(lambda: names["asks"](n()))


def test_changed_sources_are_noticed(tmp_path, caplog):
    path = tmp_path / "changing.py"
    names = {"c": c}
    for text in ("def graph(x):\n    return x if c() else 1\n", "def graph(x):\n    return x if c() else 2\n"):
        path.write_text(text)
        exec(compile(text, str(path), "exec"), names)
        assert result(lambda: names["graph"](n()))[1] == int(text.split()[-1])
    path.write_text("def graph(x):\n    return 3 - x if c() else 2 + 4\n")
    with caplog.at_level(logging.WARNING), pytest.raises(TypeError, match=r"conditional context"):
        convert._codes.clear()
        result(lambda: names["graph"](n()))
    assert "was the file changed" in caplog.text


def test_generators_work_with_plain_conditions():
    def items(x):
        for k in range(3):
            if k % 2 == 0:
                yield x + k

    def bad(x):
        if x:
            yield x

    assert result(lambda: tuple(items(n()))) == [[0, 1, 2, 3, 4, 5], [2, 3, 4, 5, 6, 7]]
    with pytest.raises(TypeError, match=r"generators and coroutines"):
        result(lambda: tuple(bad(n())))


def test_callbacks_made_by_rewritten_code_run_as_python():
    def graph():
        limit = 3

        def shorten(value):
            for k in range(10):
                if k == value:
                    continue
                if k > limit and value > limit:
                    return np.int32(limit) if value != 4 else np.int32(40)
                else:
                    break
            return value if value < 2 or value > 100 else -value

        return fn.python_function(n(), function=shorten)

    assert result(graph) == [0, 1, -2, -3, -4, -5]


def make_source():
    def source(info):
        return np.int32(info.idx_in_epoch)

    return source


def test_parallel_sources_made_by_rewritten_code_are_refused():
    def graph(maker):
        return fn.external_source(maker(), parallel=True, batch=False)

    def local():
        def source(info):
            return np.int32(info.idx_in_epoch)

        return fn.external_source(source, parallel=True, batch=False)

    for definition, arguments in ((graph, (make_source,)), (local, ())):
        with pytest.raises(ValueError, match=r"do_not_convert"):
            conditional(definition)(*arguments)
    conditional(graph)(do_not_convert(lambda: make_source()))


def test_errors_and_operators_keep_the_users_lines():
    def graph():
        x = n()
        if c():
            x = fn.python_function(x, function=lambda v: 1 // 0)  # this line
        return x

    with pytest.raises(RuntimeError, match=r'(?s)test_conditionals.py", line \d+, in graph\n    x = fn.python_function.*# this line'):
        result(graph)

    def broken():
        if c():
            y = None
            y.missing  # noqa: B018
        return 1

    with pytest.raises(AttributeError) as caught:
        result(broken)
    frames = [entry for entry in caught.traceback if entry.path.name == "test_conditionals.py"]
    assert "y.missing" in str(frames[-1].statement)


def test_lines_below_a_decorator_of_several_lines():
    @pipeline_def(
        batch_size=6,
        num_threads=1,
        device_id=None,
        enable_conditionals=True,
    )
    def graph():
        x = n()
        if c():
            x = fn.reshape(x, shape=[7, 7])  # decorated
        return x

    with pytest.raises(RuntimeError, match=r"in graph\n    x = fn.reshape\(x, shape=\[7, 7\]\)  # decorated"):
        graph().run()


def test_rewriting_is_cached_and_restricted_to_pipelines_with_conditionals():
    def helper(x):
        return x if c() else 0

    conditional(lambda: helper(n()))()
    once = converted(helper)
    assert once.__code__ is converted(helper).__code__ and converted(once) is once
    with pytest.raises(TypeError, match=r"enable_conditionals"):
        pipeline_def(batch_size=6, num_threads=1)(lambda: helper(n()))()


def test_input_sets_and_argument_inputs_in_branches():
    def graph():
        x = fn.reshape(fed(np.arange(6 * 4, dtype=np.uint8).reshape(6, 2, 2, 1)), layout="HWC")
        angle = fn.random.uniform(range=[90, 90.5], seed=1)
        y = x
        if c():
            y, x = fn.rotate([x, x], angle=angle, size=[2, 2])
        return x, y

    first, second = result(graph)
    assert first == second and first[1] == [[[4], [5]], [[6], [7]]] and first[0] != [[[0], [1]], [[2], [3]]]


def test_graphs_are_serialized():
    def graph():
        return n() if fn.random.coin_flip(seed=2) else 1

    pipeline = conditional(lambda: fn.random.uniform(seed=3) if fn.random.coin_flip(seed=2) else 1.0)()
    again = asyncdali.Pipeline.deserialize(pipeline.serialize())
    assert values(again.run()) == values(pipeline.run())


# ------------------------------------------------------------------------------------------------------------ plain programs


def library_programs():
    """Programs of the standard library, as (name, function to call). They contain every kind of statement."""
    import argparse
    import configparser
    import csv
    import difflib
    import html.parser
    import inspect
    import ipaddress
    import json
    import pprint
    import shlex
    import textwrap
    import time

    lines = inspect.getsource(shlex).splitlines()[:80]

    def arguments():
        parser = argparse.ArgumentParser(prog="x")
        parser.add_argument("--foo", type=int, default=3)
        parser.add_subparsers(dest="cmd").add_parser("run").add_argument("f", nargs="*")
        return vars(parser.parse_args(["--foo", "5", "run", "a", "b"])), parser.format_help()

    def configuration():
        parser = configparser.ConfigParser()
        parser.read_string("[a]\nx=1\ny=%(x)s2\n[b]\nz: multi\n  line\n")
        return {name: dict(parser[name]) for name in parser.sections()}

    def page():
        found = []
        parser = html.parser.HTMLParser()
        parser.handle_starttag = lambda tag, given: found.append((tag, given))
        parser.handle_data = found.append
        parser.feed('<a href="x&amp;y">t &lt; u</a><br/><script>a<b</script>')
        parser.close()
        return found

    return {
        "argparse": arguments,
        "configparser": configuration,
        "html": page,
        "difflib": lambda: list(difflib.unified_diff(lines, [line.replace("a", "b") for line in lines if len(line) % 5])),
        "textwrap": lambda: textwrap.fill(textwrap.dedent("\n".join(lines)), 40),
        "pprint": lambda: pprint.pformat({"a": [1, {"b": list(range(60))}], "c": ("x" * 200,)}, width=30),
        "json": lambda: json.scanner.py_make_scanner(json.JSONDecoder())('[1, {"a": [true, null, 1.5e3]}, "x"]', 0),
        "csv": lambda: csv.Sniffer().sniff("a;b;c\n1;2;3\n4;5;6\n").delimiter,
        "shlex": lambda: shlex.split("a 'b c' d\\ e \"f g\" # no", comments=True),
        "ipaddress": lambda: [str(item) for item in ipaddress.ip_network("10.0.0.0/29").subnets(1)],
        "strptime": lambda: time.strptime("2024-02-29 12:30", "%Y-%m-%d %H:%M"),
    }


def test_rewritten_plain_programs_behave_as_before(monkeypatch):
    own = ("asyncdali", "importlib", "re", "threading", "logging", "linecache")
    monkeypatch.setattr(convert, "_excluded", lambda function: function.__globals__.get("__name__", "").split(".")[0] in own)
    monkeypatch.setattr(convert, "_codes", {})
    programs = library_programs()
    wanted = {name: program() for name, program in programs.items()}
    found = {}

    def graph():
        for name, program in programs.items():
            found[name] = program()
        return 1

    conditional(graph)()
    assert found == wanted
    assert sum(code is not None for _, code in convert._codes.values()) > 100


def test_private_names_and_names_hidden_by_functions(monkeypatch):
    assert result(lambda: Helper(3)._Helper__amount + 0 * n()) == [3] * 6

    def shadow(x):
        return x if c() else _written_by_shadow(x)

    assert result(lambda: shadow(n())) == [0, 2, 2, 4, 4, 6]


def _written_by_shadow(x):
    return x + 1


def test_long_chains_of_elif():
    body = "".join(f"    {'el' if k else ''}if x == {k}:\n        y = {k * 10}\n" for k in range(30))
    names = {}
    text = f"def chain(x):\n{body}    else:\n        y = 5\n    return y\n"
    import linecache

    linecache.cache["<chain>"] = (len(text), None, text.splitlines(True), "<chain>")
    exec(compile(text, "<chain>", "exec"), names)
    assert result(lambda: (names["chain"](17), names["chain"](99))) == [[170] * 6, [5] * 6]
    with pytest.raises(TypeError, match=r"Move the inner ones into a function"):
        result(lambda: names["chain"](n()))


_written = None
