"""Ranks share one global order. Their concatenated batches equal the batches of one process, and any number of ranks may resume."""

from __future__ import annotations

import itertools
import logging
import random

import numpy as np
import pytest
from helpers import histories
from helpers.engines import data_files
from helpers.guarded import _EXTENTS, Call, _accepts_rank, calls
from helpers.marks import seeds

from asyncdali import Pipeline, fn, pipeline_def, types
from asyncdali.batch import storage_dtype
from asyncdali.fleet import loader
from asyncdali.operators import load_registry
from asyncdali.operators.accepts import declared
from asyncdali.pipeline.front import core_of
from asyncdali.types import DALIDataType

RANKS = (1, 2, 3, 4, 6)
BATCH = 12


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return data_files(tmp_path_factory.mktemp("files"), 29)


def halved(value):
    return value / 2


def graph(files, choose):
    """A graph of operators that a rank can run for its own samples. The epoch of the reader ends in the middle of a batch."""
    data, labels = fn.readers.file(
        files=files, name="reader", random_shuffle=choose.random() < 0.5, pad_last_batch=choose.random() < 0.5,
        num_shards=choose.randint(1, 2), stick_to_shard=choose.random() < 0.5, initial_fill=choose.randint(1, 9),
        prefetch_queue_depth=choose.randint(1, 3),
    )  # fmt: skip
    drawn = fn.random.uniform(range=[0, 100])
    noise = fn.random.normal(shape=[5, 7]) * drawn
    numbered = fn.external_source(source=lambda info: np.int32([info.idx_in_epoch]), batch=False)
    picked = fn.random.choice(1000, shape=[3])
    user = fn.python_function(drawn, function=halved)
    return data, labels, drawn, noise, numbered, picked, user


def train_of(files, number):
    @pipeline_def(batch_size=BATCH, num_threads=1, seed=number)
    def train():
        return graph(files, random.Random(number))

    return train


def batches_of(pipe, count):
    """The next batches, as bytes of each sample of each output."""
    return [[[np.asarray(sample).tobytes() for sample in output] for output in pipe.run()] for _ in range(count)]


def side_by_side(ranks):
    """The concatenated batches of all ranks."""
    return [[list(itertools.chain(*parts)) for parts in zip(*iteration)] for iteration in zip(*ranks)]


def fleet(train, count, engines, checkpoint=None, **options):
    return [loader(train, rank=r, world_size=count, engines=engines, checkpoint=checkpoint, **options) for r in range(count)]


def run_fleet(train, count, engines, iterations, checkpoint=None, **options):
    """The concatenated batches of a fleet, and its checkpoint, which all ranks share."""
    ranks = fleet(train, count, engines, checkpoint, **options)
    found = side_by_side([batches_of(rank.pipeline, iterations) for rank in ranks])
    saved = {rank.checkpoint() for rank in ranks}
    assert len(saved) == 1
    for rank in ranks:
        rank.close()
    return found, saved.pop()


# --- one order


@pytest.mark.parametrize("number", seeds(1, 3))
def test_ranks_and_engines_give_the_batches_of_one_process(files, number):
    train = train_of(files, number)
    wanted, saved = run_fleet(train, 1, 0, 7)
    for count in RANKS:
        for engines in (0, 2) if count in (1, 3) else (0,):
            assert run_fleet(train, count, engines, 7) == (wanted, saved)


@pytest.mark.parametrize("before, after", [((2, 0), (3, 0)), ((3, 2), (1, 0)), ((1, 0), (4, 0)), ((6, 0), (2, 2)), ((1, 2), (6, 0))])
def test_a_checkpoint_resumes_under_another_number(files, before, after):
    train = train_of(files, 11)
    wanted, _ = run_fleet(train, 1, 0, 9)
    first, saved = run_fleet(train, *before, 4)
    second, _ = run_fleet(train, *after, 5, saved)
    assert first + second == wanted


def test_a_pipeline_is_a_fleet_of_one(files):
    train = train_of(files, 5)
    pipe = train(enable_checkpointing=True)
    wanted = batches_of(pipe, 4)
    found, saved = run_fleet(train, 4, 0, 4)
    assert found == wanted and saved == pipe.checkpoint()
    pipe.close()


@pytest.mark.slow
def test_two_hundred_combinations(files):
    """A checkpoint of any number of ranks, taken anywhere, resumes with another number. Batches are compared in order."""
    for number in range(200):
        choose = random.Random(number)
        train = train_of(files, number)
        place = choose.randint(0, 6)
        wanted, _ = run_fleet(train, 1, 0, 9)
        first, saved = run_fleet(train, choose.choice(RANKS), choose.choice([0, 2]), place)
        second, _ = run_fleet(train, choose.choice(RANKS), choose.choice([0, 2]), 9 - place, saved)
        assert first + second == wanted, number


def test_an_epoch_is_the_same_for_all_ranks(files):
    @pipeline_def(batch_size=4, num_threads=1, seed=1)
    def train():
        return fn.readers.file(files=files[:10], name="reader")[1]

    for count in (1, 2):
        ranks = fleet(train, count, 0)
        lengths = [[len(list(rank)) for rank in ranks] for _ in range(4)]
        assert lengths == [[3] * count, [2] * count, [3] * count, [2] * count]
        assert len({rank.checkpoint() for rank in ranks}) == 1
        for rank in ranks:
            rank.close()


# --- sources and random programs


class Ranked:
    """A random program of :mod:`helpers.histories`, as one rank runs it."""

    def __init__(self, history, part, checkpoint=None, asked=0):
        def train(engines, checkpoint, enable_checkpointing):
            pipe = history.pipeline(0, 2, checkpoint, asked)
            core_of(pipe).options.engines = engines
            return pipe

        rank, count, engines = part
        self.loader = loader(train, rank=rank, world_size=count, engines=engines, checkpoint=checkpoint, uneven=True)

    def outcome(self):
        pipe = self.loader.pipeline
        try:
            return histories.numbers(pipe.run())
        except StopIteration:
            pipe.reset()
            return "end"
        except Exception as error:
            return type(error).__name__


def outcomes(history, count, engines, length, checkpoint=None, asked=0):
    """The concatenated batches of a fleet, and its checkpoint. If one rank fails in an iteration, the iteration counts as failed."""
    ranks = [Ranked(history, (r, count, engines), checkpoint, asked) for r in range(count)]
    found = []
    for _ in range(length):
        each = [rank.outcome() for rank in ranks]
        failed = [outcome for outcome in each if isinstance(outcome, str)]
        found.append(failed[0] if failed else [list(itertools.chain(*parts)) for parts in zip(*each)])
    saved = {rank.loader.checkpoint() for rank in ranks}
    assert len(saved) == 1
    for rank in ranks:
        rank.loader.close()
    return found, saved.pop()


def check_programs(numbers):
    checked = 0
    for number in numbers:
        choose = random.Random(number)
        history = histories.make(number)
        history.iterator, history.pipes = None, 1
        if any(spec.by_hand for spec in history.sources) or not (history.sources or history.files):
            continue
        history.drawn = True
        wanted, saved = outcomes(history, 1, 0, 10)
        assert outcomes(history, 2, 0, 10) == (wanted, saved), number
        place = choose.randint(1, 9)
        first, saved = outcomes(history, choose.choice([1, 2, 3]), choose.choice([0, 0, 2]), place)
        second, _ = outcomes(history, choose.choice([1, 2, 3]), choose.choice([0, 0, 2]), 10 - place, saved)
        assert first + second == wanted, number
        checked += 1
    return checked


@pytest.fixture
def silence():
    log = logging.getLogger("asyncdali")
    level = log.level
    with histories.warnings.catch_warnings():
        histories.quiet()
        yield
    log.setLevel(level)


def test_some_programs(silence):
    assert check_programs(range(50_000, 50_006)) > 3


@pytest.mark.slow
def test_many_programs(silence):
    print(check_programs(range(51_000, 51_150)), "programs")


def test_sources_may_give_smaller_batches():
    """The last batch of a source has two samples. The third rank gets an empty batch, which still has the element type."""

    def give(iteration):
        if iteration == 2:
            raise StopIteration
        return np.arange(6 if iteration == 0 else 2, dtype=np.int16).reshape(-1, 1) + 10 * iteration

    @pipeline_def(batch_size=6, num_threads=1, seed=1)
    def train():
        numbers = fn.external_source(source=give)
        return numbers, numbers + fn.random.uniform(range=[0, 0.5])

    for engines in (0, 1):
        ranks = fleet(train, 3, engines)
        got = [list(rank) for rank in ranks]
        assert [[len(numbers) for numbers, _ in batches] for batches in got] == [[2, 0], [2, 1], [2, 1]]
        empty = got[0][1][0]
        assert empty.dtype == types.INT16 and len(empty) == 0
        assert [[int(sample[0]) for numbers, _ in batches for sample in map(np.asarray, numbers)] for batches in got] == [
            [0, 1], [2, 3, 10], [4, 5, 11],
        ]  # fmt: skip
        for rank in ranks:
            rank.close()


# --- graphs that ranks cannot compute in parts


@pipeline_def(batch_size=6, num_threads=1, seed=3)
def permuted():
    numbers = fn.random.uniform(range=[0, 1])
    return fn.permute_batch(numbers, indices=fn.batch_permutation()), numbers


@pipeline_def(batch_size=6, num_threads=1, seed=3, enable_conditionals=True)
def branching():
    number = fn.random.uniform(range=[0, 1])
    if number > 0.5:
        drawn = fn.random.normal(number)
    else:
        drawn = fn.random.normal(number, mean=5.0)
    return number, drawn


@pipeline_def(batch_size=6, num_threads=1, seed=3)
def batch_function():
    return fn.python_function(
        fn.random.uniform(range=[0, 1]), function=lambda values: [value - sum(values) for value in values], batch_processing=True
    )


@pytest.mark.parametrize(
    "train, reason", [(permuted, "permut"), (branching, "branch of a conditional"), (batch_function, "called with the whole batch")]
)
def test_operators_that_look_across_a_batch_get_the_whole_batch(train, reason):
    pipe = train()
    wanted = batches_of(pipe, 5)
    pipe.close()
    for count, engines in ((1, 0), (2, 0), (3, 2)):
        with loader(train, rank=0, world_size=count) as batches:
            assert reason in batches.made_whole
        assert run_fleet(train, count, engines, 5)[0] == wanted


@pipeline_def(batch_size=6, num_threads=1, seed=3, enable_conditionals=True)
def branching_without_draws():
    number = fn.random.uniform(range=[0, 1])
    if number > 0.5:
        number = number + 7
    return number


def test_ranks_compute_branches_without_draws_in_parts():
    pipe = branching_without_draws()
    wanted = batches_of(pipe, 5)
    pipe.close()
    with loader(branching_without_draws) as batches:
        assert batches.made_whole == ""
    assert run_fleet(branching_without_draws, 3, 0, 5)[0] == wanted


def test_a_rank_computes_only_its_own_samples():
    seen = []

    @pipeline_def(batch_size=6, num_threads=1, seed=3, prefetch_queue_depth=1)
    def train():
        numbers = fn.external_source(source=lambda k: np.arange(6) + 10 * k)
        return fn.python_function(numbers, function=lambda number: (seen.append(int(number)), number)[1])

    with loader(train, rank=1, world_size=3) as batches:
        batches_of(batches.pipeline, 2)
    assert seen == [2, 3, 12, 13]


def test_errors_name_the_sample_in_the_global_batch():
    def fails(number):
        if number == 4:
            raise ValueError("four")
        return number

    @pipeline_def(batch_size=6, num_threads=1, seed=3)
    def train():
        return fn.python_function(fn.external_source(source=lambda k: np.arange(6)), function=fails)

    for engines in (0, 1):
        for rank in range(3):
            with loader(train, rank=rank, world_size=3, engines=engines) as batches:
                if rank != 2:
                    assert len(batches.pipeline.run()[0]) == 2
                    continue
                with pytest.raises(RuntimeError, match="sample 4") as caught:
                    batches.pipeline.run()
                assert caught.value.sample == 4


# --- refusals


def test_ranks_must_divide_the_batch_or_say_so(files):
    train = train_of(files, 0)
    with pytest.raises(ValueError, match=r"batch_size=12 cannot be divided among world_size=5 .* uneven=True: then ranks get 2 or 3"):
        loader(train, rank=0, world_size=5)
    wanted, saved = run_fleet(train, 1, 0, 3)
    assert run_fleet(train, 5, 0, 3, uneven=True) == (wanted, saved)


def test_invalid_arguments_of_the_loader_are_refused(files):
    train = train_of(files, 0)
    with pytest.raises(ValueError, match=r"rank is 2, world_size 2"):
        loader(train, rank=2, world_size=2)
    with pytest.raises(ValueError, match=r"no seed"):
        loader(train, rank=0, world_size=2, seed=None)
    with pytest.raises(TypeError, match="must return a Pipeline, it returned a int"):
        loader(lambda **options: 3)
    with pytest.raises(TypeError, match="debug=False"):
        loader(train, debug=True)
    with pytest.raises(TypeError, match="a function that returns a pipeline"):
        loader(Pipeline(batch_size=2, num_threads=1).max_batch_size)


# --- every operator

OPERATORS = sorted(name for name, cls in load_registry().items() if cls.schema.inputs[1] and not name.startswith(("_", "readers.")))
SAMPLES = 6
NOT_HERE = {
    "experimental.numba_function", "dl_tensor_python_function", "python_function",  # the tests above have calls with functions
    "dump_image",  # the operator writes files
    "decoders.inflate", "decoders.video", "io.file.read",  # the inputs are encoded files, and each sample is decoded separately
}  # fmt: skip
OWN_SHAPES = {
    "debayer": {0: (6, 4, 1)}, "experimental.remap": {0: (6, 4, 3), 1: (6, 4), 2: (6, 4)}, "full": {0: (3, 5)}, "spectrogram": {0: (30,)},
    "squeeze": {0: (1, 5)},
}  # fmt: skip


def input_of(schema, call, position, varied, rng):
    """(samples, layout) of an input that the operator accepts. With `varied` the samples have different shapes."""
    accepted = declared(schema.accepts, position)
    dtype = accepted.types[0]
    for wished in (DALIDataType.FLOAT, DALIDataType.UINT8):
        dtype = wished if wished in accepted.types else dtype
    given = OWN_SHAPES.get(schema.name, call.shapes).get(position)
    ranks = [rank for rank in range(6) if _accepts_rank(accepted, rank)]
    rank = len(given) if given is not None else 3 if 3 in ranks else ranks[-1]
    layout = accepted.layouts.assumed(rank) or ""
    extents = given if given is not None else tuple(_EXTENTS.get(letter, 4) for letter in layout) if layout else (6, 4, 3, 2, 2)[:rank]
    content = call.contents.get(position)
    samples = []
    for k in range(SAMPLES):
        shape = list(extents)
        if varied and given is None and rank and layout[:1] not in ("F", "C"):
            shape[0] += k % 3
        if content is not None and np.shape(content) == tuple(extents):
            samples.append(np.asarray(content).astype(storage_dtype(dtype)))
        else:
            numbers = rng.integers(0, 7, shape)
            kind = storage_dtype(dtype).kind
            samples.append((numbers / 8 if kind == "f" else numbers % 2 if kind == "b" else numbers).astype(storage_dtype(dtype)))
    return samples, dtype, layout


def stream_of(name, call, inputs, part):
    """Two iterations of an operator: bytes and shape of each sample of each output. `part`: (rank, number of ranks)."""
    function = fn
    for piece in name.split("."):
        function = getattr(function, piece)

    def train(engines, checkpoint, enable_checkpointing):
        pipe = Pipeline(batch_size=SAMPLES, num_threads=1, seed=7)
        with pipe:
            nodes = [
                fn.external_source(source=itertools.repeat(samples), dtype=dtype, layout=layout or None)
                for samples, dtype, layout in inputs
            ]
            made = function(*nodes, **call.constants)
            pipe.set_outputs(*(made if isinstance(made, (list, tuple)) else [made]))
        return pipe

    with loader(train, rank=part[0], world_size=part[1]) as batches:
        whole = batches.made_whole
        found = []
        for _ in range(2):
            outputs = [output.as_cpu() if hasattr(output, "as_cpu") else output for output in batches.pipeline.run()]
            found.append([[(np.asarray(item).shape, np.asarray(item).tobytes()) for item in output] for output in outputs])
    return found, whole


@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in NOT_HERE])
def test_parts_of_an_operator_are_parts_of_its_batch(name):
    """Results of ranks equal their parts of the whole batch, unless the operator declares that it needs the whole batch (`why_whole`)."""
    schema = load_registry()[name].schema
    ran = 0
    for call in calls(name, schema):
        if name == "permute_batch":
            call = Call({"indices": [5, 4, 3, 0, 0, 1]})
        for varied in (True, False):
            rng = np.random.default_rng(3)
            inputs = [input_of(schema, call, position, varied, rng) for position in range(call.inputs)]
            try:
                wanted, _ = stream_of(name, call, inputs, (0, 1))
            except Exception:  # the operator needs samples of one shape, or the call does not fit into a pipeline
                continue
            ranks = [stream_of(name, call, inputs, (rank, 3))[0] for rank in range(3)]
            assert side_by_side(ranks) == wanted, (call, varied)
            ran += 1
            break
    assert ran, "no call of the operator ran"
