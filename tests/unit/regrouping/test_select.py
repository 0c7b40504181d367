"""fn.experimental.select: samples that pass, each once per epoch and in order, with exact checkpoints."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from asyncdali import fn, pipeline_def

COUNT, BATCH = 50, 4


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    names = []
    for k in range(COUNT):
        (folder / f"{k:03}.bin").write_bytes(bytes([k]) * (k % 7 + 1))
        names.append(str(folder / f"{k:03}.bin"))
    return names


def passes(label):
    return label % 10 in (1, 4, 5)


def make(files, refill=True, conditionals=False, **options):
    reader = {key: options.pop(key) for key in ("num_shards", "shard_id", "random_shuffle", "pad_last_batch", "stick_to_shard",
                                                 "shuffle_after_epoch") if key in options}  # fmt: skip

    @pipeline_def(batch_size=BATCH, device_id=None, seed=3, enable_conditionals=conditionals)
    def define():
        data, label = fn.readers.file(files=files, labels=list(range(len(files))), name="reader", seed=5, **reader)
        rest = label % 10
        data, label = fn.experimental.select(data, label, where=(rest == 1) | (rest == 4) | (rest == 5), refill=refill)
        draw = fn.random.uniform()
        doubled = label * 2
        if conditionals and doubled[0] > 40:
            doubled = doubled + 1000
        return data, label, doubled, draw

    pipe = define(**{"num_threads": 2, **options})
    pipe.build()
    return pipe


def batch(pipe):
    data, label, doubled, draw = pipe.run()
    rows = []
    for k in range(len(label)):
        number = int(np.asarray(label[k]).item())
        assert np.asarray(data[k]).tolist() == [number] * (number % 7 + 1)
        assert int(np.asarray(doubled[k]).item()) % 1000 == number * 2
        rows.append((number, float(np.asarray(draw[k]))))
    return rows


def events(pipe, count):
    """Batches and ends of epochs, as a list."""
    found = []
    for _ in range(count):
        try:
            found.append(batch(pipe))
        except StopIteration:
            found.append("end")
            pipe.reset()
    return found


def epochs(pipe, count):
    """The numbers of each epoch."""
    found, own = [], []
    while len(found) < count:
        try:
            rows = batch(pipe)
            assert rows
            own += [number for number, _ in rows]
        except StopIteration:
            found.append(own)
            own = []
            pipe.reset()
    return found


def shard_of(shard, shards, size=COUNT):
    return list(range(size * shard // shards, size * (shard + 1) // shards))


@pytest.mark.parametrize("refill", [True, False])
@pytest.mark.parametrize("reader", [{}, {"pad_last_batch": True}], ids=["plain", "padded"])
def test_each_passing_sample_once_per_epoch_in_order(files, reader, refill):
    pipe = make(files, refill, **reader)
    assert epochs(pipe, 3) == [list(filter(passes, range(COUNT)))] * 3
    pipe.close()


def test_batches_are_full_except_for_the_last_one(files):
    pipe = make(files)
    sizes = [len(item) for item in events(pipe, 10)]
    assert sizes == [4, 4, 4, 3, len("end")] * 2
    pipe.close()


@pytest.mark.parametrize("stick", [True, False])
@pytest.mark.parametrize("pad", [True, False])
def test_shards(files, stick, pad):
    pipes = [make(files, num_shards=3, shard_id=k, stick_to_shard=stick, pad_last_batch=pad) for k in range(3)]
    found = [epochs(pipe, 3) for pipe in pipes]
    for rank, own in enumerate(found):
        for epoch, numbers in enumerate(own):
            assert numbers == list(filter(passes, shard_of(rank if stick else (rank + epoch) % 3, 3)))
    for pipe in pipes:
        pipe.close()


@pytest.mark.parametrize("order", [{"random_shuffle": True}, {"shuffle_after_epoch": True}], ids=["buffer", "permutation"])
def test_shuffled_readers_keep_their_order(files, order):
    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None)
    def plain():
        return fn.readers.file(files=files, labels=list(range(COUNT)), seed=5, **order)[1]

    raw = plain()
    numbers = [int(np.asarray(label).item()) for _ in range(38) for label in raw.run()[0]]
    raw.close()
    pipe = make(files, **order)
    wanted = [list(filter(passes, numbers[COUNT * epoch : COUNT * (epoch + 1)])) for epoch in range(3)]
    assert epochs(pipe, 3) == wanted
    pipe.close()


@pytest.mark.parametrize("options", [
    {"num_threads": 1, "prefetch_queue_depth": 1}, {"prefetch_queue_depth": 5}, {"exec_pipelined": False}, {"exec_async": False},
    {"engines": 2}, {"conditionals": True},
], ids=["shallow", "deep", "unpipelined", "synchronous", "engines", "conditionals"])  # fmt: skip
def test_one_stream_however_it_is_made(files, options):
    first = make(files, random_shuffle=True)
    expected = events(first, 14)
    first.close()
    other = make(files, random_shuffle=True, **options)
    assert events(other, 14) == expected
    other.close()


@pytest.mark.parametrize("refill", [True, False])
@pytest.mark.parametrize("depth", [1, 3])
def test_a_restart_continues_the_stream(files, refill, depth):
    options = {"enable_checkpointing": True, "random_shuffle": True, "prefetch_queue_depth": depth}
    pipe = make(files, refill, **options)
    saved, expected = [], []
    for _ in range(22):
        saved.append(pipe.checkpoint())
        expected += events(pipe, 1)
    pipe.close()
    assert max(map(len, saved)) <= 8192
    for k in (0, 1, 4, 5, 9, 13, 21):
        again = make(files, refill, **options, checkpoint=saved[k])
        assert again.checkpoint() == saved[k]
        assert events(again, 22 - k) == expected[k:]
        again.close()


def test_a_checkpoint_at_the_end_of_an_epoch(files):
    options = {"enable_checkpointing": True}
    pipe = make(files, **options)
    own = []
    with pytest.raises(StopIteration):
        while True:
            own.append(batch(pipe))
    saved = pipe.checkpoint()
    pipe.reset()
    expected = events(pipe, 6)
    pipe.close()
    again = make(files, **options, checkpoint=saved)
    with pytest.raises(StopIteration):
        again.run()
    again.reset()
    assert events(again, 6) == expected
    again.close()


def test_the_condition_may_need_decoded_pixels(tmp_path):
    names = []
    for k in range(24):
        out = io.BytesIO()
        Image.fromarray(np.full((8, 8, 3), 10 * k, np.uint8)).save(out, "PNG")
        (tmp_path / f"{k:02}.png").write_bytes(out.getvalue())
        names.append(str(tmp_path / f"{k:02}.png"))

    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def define():
        pixels, label = fn.readers.file(files=names, labels=list(range(24)))
        pixels = fn.decoders.image(pixels)
        pixels, label = fn.experimental.select(pixels, label, where=fn.reductions.mean(pixels) > 150)
        return fn.resize(pixels, size=[4, 4]), pixels, label

    pipe = define()
    numbers = []
    with pytest.raises(StopIteration):
        while True:
            small, pixels, labels = pipe.run()
            assert np.asarray(pixels.as_tensor()).shape == (len(labels), 8, 8, 3)
            for k in range(len(labels)):
                numbers.append(int(np.asarray(labels[k]).item()))
                assert (np.asarray(small[k]) == 10 * numbers[-1]).all() and (np.asarray(pixels[k]) == 10 * numbers[-1]).all()
    assert numbers == list(range(16, 24))
    pipe.close()


class Numbers:
    """A source that ends its epochs after 11 batches, with a state."""

    def __init__(self):
        self.next = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.next % 12 == 11:
            self.next += 1
            raise StopIteration
        self.next += 1
        return [np.array(self.next * 10 + k) for k in range(3)]

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


def from_source(**options):
    @pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=1)
    def define():
        number = fn.external_source(Numbers())
        return fn.experimental.select(number, where=number % 10 != 1), fn.random.uniform()

    pipe = define(**options)
    pipe.build()
    return pipe


def source_events(pipe, count):
    found = []
    for _ in range(count):
        try:
            numbers, draws = pipe.run()
            found.append([(int(np.asarray(numbers[k]).item()), float(np.asarray(draws[k]))) for k in range(len(numbers))])
        except StopIteration:
            found.append("end")
            pipe.reset()
    return found


def test_sources_end_the_epochs_and_have_their_state_in_the_checkpoint():
    pipe = from_source(enable_checkpointing=True)
    saved, expected = [], []
    for _ in range(16):
        saved.append(pipe.checkpoint())
        expected += source_events(pipe, 1)
    pipe.close()
    numbers = [number for item in expected if item != "end" for number, _ in item]
    assert numbers[:22] == [10 * k + r for k in range(1, 12) for r in (0, 2)] and expected[6] == "end"
    for k in range(16):
        again = from_source(enable_checkpointing=True, checkpoint=saved[k])
        assert source_events(again, 16 - k) == expected[k:]
        again.close()


def test_an_error_of_a_raw_iteration_is_raised_once(files):
    def check(label):
        if int(label[0]) in (9, 33):
            raise ValueError(f"number {int(label[0])}")
        return label

    def define(**options):
        @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, seed=3, enable_checkpointing=True)
        def graph():
            label = fn.readers.file(files=files, labels=list(range(COUNT)))[1]
            checked = fn.python_function(label, function=check)
            return fn.experimental.select(checked, where=checked % 2 == 0)

        return graph(**options)

    def results(pipe, count):
        found = []
        for _ in range(count):
            try:
                found.append([int(np.asarray(item).item()) for item in pipe.run()[0]])
            except StopIteration:
                found.append("end")
                pipe.reset()
            except RuntimeError as error:
                found.append("number 9" if "number 9" in str(error) else "number 33" if "number 33" in str(error) else "?")
        return found

    pipe = define()
    saved, expected = [], []
    for _ in range(20):
        saved.append(pipe.checkpoint())
        expected += results(pipe, 1)
    pipe.close()
    whole = [number for number in range(0, COUNT, 2) if number // 4 not in (9 // 4, 33 // 4)]
    first = expected[: expected.index("end")]
    assert [number for item in first if isinstance(item, list) for number in item] == whole
    assert first.count("number 9") == first.count("number 33") == 1
    for k in range(20):
        again = define(checkpoint=saved[k])
        assert results(again, 20 - k) == expected[k:], k
        again.close()


# --- refusals


def refusal(define, **options):
    pipe = pipeline_def(batch_size=4, num_threads=1, device_id=None, **options)(define)
    with pytest.raises(RuntimeError) as caught:
        pipe().build()
    return str(caught.value)


def test_a_node_from_before_cannot_be_used_behind(files):
    def define():
        data, label = fn.readers.file(files=files, name="reader")
        return fn.experimental.select(data, where=label > 3), label

    assert "'reader'" in refusal(define) and "pass the node through" in refusal(define)


def test_two_selections_of_one_reader(files):
    def define():
        data, label = fn.readers.file(files=files, name="reader")
        return fn.experimental.select(data, where=label > 3), fn.experimental.select(data, where=label < 3)

    assert "belongs to another" in refusal(define)


def test_fed_inputs_cannot_be_selected():
    def define():
        data = fn.external_source(name="fed")
        return fn.experimental.select(data, where=data > 3)

    assert "'fed' is fed by the program" in refusal(define)


def test_nodes_on_a_gpu(files):
    def define():
        data, label = fn.readers.file(files=files)
        return fn.experimental.select(data.gpu(), where=label > 3)

    assert "is on the GPU" in refusal(define)


def test_branches_of_conditionals(files):
    def define():
        data, label = fn.readers.file(files=files)
        if fn.random.coin_flip():
            data = fn.experimental.select(data, where=label > 3)
        return data

    assert "branch of a conditional" in refusal(define, enable_conditionals=True)


def test_a_condition_of_several_numbers(files):
    def define():
        data, label = fn.readers.file(files=files)
        return fn.experimental.select(label, where=data > 3)

    pipe = pipeline_def(batch_size=4, num_threads=1, device_id=None)(define)()
    with pytest.raises(ValueError, match=r"one number per sample; sample 1 has shape \(2,\)"):
        pipe.run()
    pipe.close()


def test_epoch_sizes_are_upper_bounds(files):
    pipe = make(files)
    assert pipe.epoch_size("reader") == COUNT and pipe.reader_meta("reader")["epoch_size"] == COUNT
    pipe.close()


# --- bad samples


def with_bad_samples(files, **options):
    """Label 13 is bad before the selection, labels 14 and 41 are bad behind."""

    def checked(bad):
        def check(label):
            if int(label[0]) in bad:
                raise ValueError("bad")
            return label

        return check

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=3, enable_checkpointing=True)
    def define():
        label = fn.readers.file(files=files, labels=list(range(COUNT)), name="reader")[1]
        label = fn.python_function(label, function=checked((13, 40)))
        label = fn.experimental.select(label, where=(label % 10 == 1) | (label % 10 == 3) | (label % 10 == 4))
        return fn.python_function(label, function=checked((14, 41))), fn.random.uniform()

    return define(**options)


def labels_of(pipe, count):
    found = []
    for _ in range(count):
        try:
            labels, draws = pipe.run()
            assert len(labels) == len(draws)
            found.append([(int(np.asarray(labels[k])[0]), float(np.asarray(draws[k]))) for k in range(len(labels))])
        except StopIteration:
            found.append("end")
            pipe.reset()
    return found


@pytest.mark.parametrize("action", ["replace", "drop"])
def test_bad_samples_before_and_behind(files, action):
    pipe = with_bad_samples(files, on_error=action)
    saved, expected = [], []
    for _ in range(12):
        saved.append(pipe.checkpoint())
        expected += labels_of(pipe, 1)
    listed = {(entry.reader, entry.index, entry.action) for entry in pipe.quarantine()}
    assert listed == {("reader", number, action) for number in (13, 14, 40, 41)} and len(pipe.quarantine()) == 4
    pipe.close()
    first = [label for batch in expected[: expected.index("end")] for label, _ in batch]
    good = [number for number in range(COUNT) if number % 10 in (1, 3, 4) and number not in (13, 14, 41)]
    if action == "drop":
        assert first == good
    else:
        assert len(first) >= len(good) and set(good) <= set(first) and not {13, 14, 41} & set(first)
    for k in range(12):
        again = with_bad_samples(files, on_error=action, checkpoint=saved[k])
        assert labels_of(again, 12 - k) == expected[k:], k
        again.close()


def test_the_budget_counts_the_data_set_before_the_selection(files):
    pipe = with_bad_samples(files, on_error="drop", max_bad=0.04)  # 2 of 50 samples for the graph behind
    assert "end" in labels_of(pipe, 6)
    pipe.close()
    pipe = with_bad_samples(files, on_error="drop", max_bad=0.02)
    with pytest.raises(RuntimeError, match="2 samples are bad, more than max_bad"):
        labels_of(pipe, 6)
    pipe.close()


def test_a_gpu_behind(files):
    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0)
    def define():
        data, label = fn.readers.file(files=files, labels=list(range(COUNT)))
        data, label = fn.experimental.select(data, label, where=label % 5 == 0)
        return label.gpu() * 2, data.gpu(), label

    pipe = define()
    found = []
    with pytest.raises(StopIteration):
        while True:
            doubled, data, labels = pipe.run()
            for k in range(len(labels)):
                number = int(np.asarray(labels[k]).item())
                assert np.asarray(doubled.as_cpu()[k]).item() == 2 * number
                assert np.asarray(data.as_cpu()[k]).tolist() == [number] * (number % 7 + 1)
                found.append(number)
    assert found == list(range(0, COUNT, 5))
    pipe.close()


def test_a_gpu_before(files):
    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0)
    def define():
        label = fn.readers.file(files=files, labels=list(range(COUNT)))[1]
        tripled = (label.gpu() * 3).cpu()
        return fn.experimental.select(tripled, where=tripled % 2 == 0)

    pipe = define()
    assert [int(np.asarray(item).item()) for _ in range(3) for item in pipe.run()[0]] == [6 * k for k in range(12)]
    pipe.close()


def test_the_first_draws_of_parts_and_pipeline_differ(files):
    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, seed=11)
    def define():
        label = fn.readers.file(files=files, labels=list(range(COUNT)))[1]
        label, draw = fn.experimental.select(label, fn.random.uniform(), where=label >= 0)
        return draw, fn.random.uniform()

    pipe = define()
    inner, own = pipe.run()
    assert not set(np.ravel(inner.as_array()).tolist()) & set(np.ravel(own.as_array()).tolist())
    pipe.close()


def test_rare_samples_take_little_memory(files):
    """Less than half of a raw batch passes: the samples are copied, so that the raw batches are free again."""

    @pipeline_def(batch_size=25, num_threads=1, device_id=None)
    def define():
        label = fn.readers.file(files=files, labels=list(range(COUNT)))[1]
        pixels = fn.random.uniform(shape=[64])
        return fn.experimental.select(pixels, label, where=label % 25 == 3)

    pipe = define()
    pixels, labels = pipe.run()
    assert np.ravel(labels.as_array()).tolist() == [3, 28]
    assert np.asarray(pixels.as_tensor()).shape == (2, 64)
    pipe.close()


def test_a_condition_that_is_never_true_ends(files, monkeypatch):
    from asyncdali.regrouping import part_streams

    monkeypatch.setattr(part_streams, "MOST_EMPTY", 20)

    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def define():
        draw = fn.random.uniform()
        return fn.experimental.select(draw, where=draw > 2)

    pipe = define()
    with pytest.raises(ValueError, match="no sample in 20 raw iterations"):
        pipe.run()
    pipe.close()


def test_an_output_that_is_not_used(files):
    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, seed=11, enable_checkpointing=True)
    def define():
        data, label = fn.readers.file(files=files, labels=list(range(COUNT)), random_shuffle=True)
        return fn.experimental.select(data, label, where=label % 3 == 0)[1]

    pipe = define()
    pipe.run()
    saved = pipe.checkpoint()
    expected = np.ravel(pipe.run()[0].as_array()).tolist()
    pipe.close()
    again = define(checkpoint=saved)
    assert np.ravel(again.run()[0].as_array()).tolist() == expected
    again.close()
