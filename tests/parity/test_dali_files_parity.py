"""Files of DALI: what DALI saves continues here, and what this library saves for DALI continues there."""

from __future__ import annotations

import random

import pytest
from helpers.dali_twins import Program, batches, dali, write_files

import asyncdali


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("files")
    write_files(made)
    return made


def check_checkpoints(seed, folder):
    runs = random.Random(seed).randint(0, 12)
    program = Program(seed, folder)
    theirs = program.make(dali())
    theirs.build()
    batches(theirs, runs)
    saved = theirs.checkpoint()
    mine = program.make(asyncdali, checkpoint=saved)
    expected = batches(theirs, 4)
    assert batches(mine, 4) == expected, seed
    back = program.make(dali(), checkpoint=mine.checkpoint(format="dali"))
    back.build()
    assert batches(back, 3) == batches(mine, 3), seed
    mine.close()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(6))
def test_checkpoints_of_random_pipelines(seed, folder):
    check_checkpoints(seed, folder)


def check_pipelines(seed, folder):
    program = Program(seed, folder, sources=False)
    theirs = program.make(dali(), enable_checkpointing=seed % 2 == 0)
    theirs.build()
    mine = asyncdali.Pipeline.deserialize(theirs.serialize())
    assert batches(mine, 5) == batches(theirs, 5), seed
    if seed % 2 == 0:
        restored = asyncdali.Pipeline.deserialize(theirs.serialize(), checkpoint=theirs.checkpoint())
        assert batches(restored, 3) == batches(theirs, 3), seed
        restored.close()
    mine.close()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(6))
def test_serialized_random_pipelines(seed, folder):
    check_pipelines(seed, folder)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(6, 300))
def test_many_serialized_random_pipelines(seed, folder):
    check_pipelines(seed, folder)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(6, 300))
def test_checkpoints_of_many_random_pipelines(seed, folder):
    check_checkpoints(seed, folder)
