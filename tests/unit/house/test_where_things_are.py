"""Twenty-five features whose files were guessed by name before the code was searched.

The guesses were written down before the first look-up, by a reader of docs/architecture.md as it was before the rooms were divided. They
stay as they are when a file moves; only the column `file` changes. A guess is right if the file has the guessed name: that is how an
editor opens files. ``plugin/pytorch.py`` counts for a file in the package ``plugin/pytorch``. Issue 16 asks for 22.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import NamedTuple

import pytest
from helpers.places import PROJECT as ROOT

RIGHT_GUESSES = 22
"""How many guesses are right. The number may only grow."""


class Row(NamedTuple):
    """A feature, the file that was guessed, the file that has it, and a text in that file. Files are in asyncdali/, or in workers/."""

    feature: str
    guess: str
    file: str
    text: str

    def is_right(self) -> bool:
        return PurePosixPath(self.guess).name == PurePosixPath(self.file).name or self.file.startswith(self.guess.removesuffix(".py") + "/")


ROWS = [
    Row(*(part.strip() for part in line.split("|")))
    for line in """
random_shuffle of readers     | readers/order.py                    | sampling/order.py                        | class _BufferedVisit
the canvas of rotate          | operators/geometry/rotate.py        | operators/warp/rotate_rules.py           | def canvas(
replacement of dead workers   | workers/replacement.py              | workers/processes/replacement.py         | def _replace(
where .gpu() becomes a copy   | operators/arrays/transfer.py        | operators/batches/transfer.py            | class Transfer(
the kernel of one_hot         | operators/arrays/one_hot_kernels.py | operators/lookup/one_hot_kernels.py      | def one_hot_step
where a shard begins and ends | readers/sharding.py                 | sampling/sharding.py                     | def shard_bounds(
automatic seeds               | graph/seeds.py                      | sampling/seeds.py                        | def seed_table(
writing of checkpoints        | checkpoint.py                       | checkpoint.py                            | def write(
serialization of pipelines    | graph/serialize.py                  | graph/serialize.py                       | def serialize(
where an if splits a batch    | graph/conditionals.py               | graph/conditionals.py                    | def cut(
the iterator for PyTorch      | plugin/pytorch.py                   | plugin/pytorch/iterator.py               | class DALIGenericIterator(
the pool of host memory       | device/buffers.py                   | device/buffers.py                        | class BufferPool
debug mode                    | pipeline/debug.py                   | pipeline/debug/debug_pipeline.py         | class DebugPipeline(
compilation of CUDA sources   | device/cuda/compiler.py             | device/cuda/compiler.py                  | compile_using_nvrtc
auto_augment                  | auto_aug/auto_augment.py            | auto_aug/auto_augment.py                 | def auto_augment(
the matrix of mel_filter_bank | operators/audio/mel_filter_bank.py  | operators/audio/mel_filter_bank.py       | def mel_matrix(
the weights of resize         | operators/geometry/resize_taps.py   | operators/resize/tap_kernels.py          | def tap_tables(
where crop places its window  | operators/geometry/crop.py          | operators/crop/crop_rules.py             | def window_anchor(
coin_flip                     | operators/random/coin_flip.py       | operators/random/coin_flip.py            | class CoinFlip(
erase                         | operators/masks/erase.py            | operators/masks/erase.py                 | class Erase(
bbox_paste                    | operators/detection/bbox_paste.py   | operators/detection/bbox_paste.py        | class BBoxPaste(
the webdataset reader         | readers/webdataset.py               | readers/webdataset/webdataset.py         | class WebdatasetReader(
parsing of TFRecord examples  | readers/tfrecord_kernels.py         | readers/tfrecord/tfrecord_kernels.py     | def parse_example(
JPEGs for nvJPEG              | device/cuda/nvjpeg.py               | device/cuda/nvjpeg.py                    | class BatchDecoder
retries of remote files       | readers/remote.py                   | readers/remote/remote.py                 | class Retries
""".strip().splitlines()
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.feature)
def test_a_feature_is_where_the_table_says(row: Row):
    path = ROOT / row.file if row.file.startswith("workers/") else ROOT / "asyncdali" / row.file
    assert path.is_file(), f"{row.file} has moved: write its new place into the table, and leave the guess alone"
    assert row.text in path.read_text(), f"{row.text!r} is no longer in {row.file}"


def test_names_of_right_guesses_are_found():
    """A file name helps only if few files have it: at most two files, in different rooms."""
    files = [path for folder in ("asyncdali", "workers") for path in (ROOT / folder).rglob("*.py")]
    for row in ROWS:
        if row.is_right():
            name = PurePosixPath(row.file).name
            assert sum(path.name == name for path in files) <= 2, name


def test_guesses():
    right = [row.feature for row in ROWS if row.is_right()]
    assert len(ROWS) == 25
    assert len(right) == RIGHT_GUESSES, f"{len(right)} of 25 guesses are right: {', '.join(right)}"
