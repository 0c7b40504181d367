"""Twenty-five features whose files were guessed by name before anybody looked.

A guess is the one file that somebody opens first who has read docs/architecture.md. All guesses were written down before the first
look-up. They stay as they are when a file moves; only the column `file` changes. What counts is the number of guesses that are right:
issue 16 asks for 22.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
RIGHT_GUESSES = 13
"""How many guesses are right now. The number may only grow."""


class Row(NamedTuple):
    """A feature, the file that was guessed, the file that has it, and a text in that file. Files are in asyncdali/, or in workers/."""

    feature: str
    guess: str
    file: str
    text: str


ROWS = [
    Row(*(part.strip() for part in line.split("|")))
    for line in """
random_shuffle of readers     | readers/order.py                    | readers/order.py                   | class _BufferedVisit
the canvas of rotate          | operators/geometry/rotate.py        | operators/geometry/rotate_rules.py | def canvas(
replacement of dead workers   | workers/replacement.py              | workers/crew.py                    | def _replace(
where .gpu() becomes a copy   | operators/arrays/transfer.py        | graph/plan.py                      | REGISTRY["_transfer"]
the kernel of one_hot         | operators/arrays/one_hot_kernels.py | operators/arrays/lookup_kernels.py | def one_hot_step(
where a shard begins and ends | readers/sharding.py                 | readers/order.py                   | def _shard_bounds(
automatic seeds               | graph/seeds.py                      | operators/random/random_streams.py | def seed_table(
writing of checkpoints        | checkpoint.py                       | checkpoint.py                      | def write(
serialization of pipelines    | graph/serialize.py                  | graph/serialize.py                 | def serialize(
where an if splits a batch    | graph/conditionals.py               | graph/conditionals.py              | def cut(
the iterator for PyTorch      | plugin/pytorch.py                   | plugin/pytorch/iterator.py         | class DALIGenericIterator(
the pool of host memory       | device/buffers.py                   | device/buffers.py                  | class BufferPool
debug mode                    | pipeline/debug.py                   | pipeline/debug.py                  | class DebugPipeline(
compilation of CUDA sources   | device/cuda/compiler.py             | device/cuda/driver.py              | compile_using_nvrtc
auto_augment                  | auto_aug/auto_augment.py            | auto_aug/auto_augment.py           | def auto_augment(
the matrix of mel_filter_bank | operators/audio/mel_filter_bank.py  | operators/audio/mel.py             | def mel_matrix(
the weights of resize         | operators/geometry/resize_taps.py   | operators/geometry/tap_kernels.py  | def tap_tables(
where crop places its window  | operators/geometry/crop.py          | operators/geometry/crop_rules.py   | def window_anchor(
coin_flip                     | operators/random/coin_flip.py       | operators/random/random.py         | class CoinFlip(
erase                         | operators/masks/erase.py            | operators/masks/erase.py           | class Erase(
bbox_paste                    | operators/detection/bbox_paste.py   | operators/detection/bbox_paste.py  | class BBoxPaste(
the webdataset reader         | readers/webdataset.py               | readers/webdataset.py              | class WebdatasetReader(
parsing of TFRecord examples  | readers/tfrecord_kernels.py         | readers/tfrecord_kernels.py        | def parse_example(
JPEGs for nvJPEG              | device/cuda/nvjpeg.py               | device/cuda/nvjpeg.py              | class BatchDecoder
retries of remote files       | readers/remote.py                   | readers/remote.py                  | class Retries
""".strip().splitlines()
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.feature)
def test_a_feature_is_where_the_table_says(row: Row):
    path = ROOT / row.file if row.file.startswith("workers/") else ROOT / "asyncdali" / row.file
    assert path.is_file(), f"{row.file} has moved: write its new place into the table, and leave the guess alone"
    assert row.text in path.read_text(), f"{row.text!r} is no longer in {row.file}"


def test_guesses():
    right = [row.feature for row in ROWS if row.guess == row.file]
    assert len(ROWS) == 25
    assert len(right) == RIGHT_GUESSES, f"{len(right)} of 25 guesses are right: {', '.join(right)}"
