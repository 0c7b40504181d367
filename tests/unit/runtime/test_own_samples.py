"""The samples of a batch that belong to the epoch, as jax's ``is_nonpadding`` reports them."""

from __future__ import annotations

from asyncdali.plugin.epochs import CountedEpochs, LastBatchPolicy, OpenEpochs, ReaderEpochs


def own(epochs, batches):
    found = []
    for _ in range(batches):
        epochs.advance()
        found.append(epochs.own_samples())
    return found


def test_counted_epochs():
    assert own(CountedEpochs(10, 2, 3, LastBatchPolicy.FILL, True), 2) == [[3, 3], [3, 1]]


def test_shards_of_a_reader():
    epochs = ReaderEpochs([10, 7], [0, 1], 4, LastBatchPolicy.FILL, True, True)
    assert own(epochs, 3) == [[4, 4], [4, 3], [2, 0]]


def test_samples_that_the_previous_epoch_delivered():
    """A shard of 10 in batches of 4: the third batch contains two samples of the next epoch."""
    epochs = ReaderEpochs([10], [0], 4, LastBatchPolicy.FILL, False, True)
    assert own(epochs, 3) == [[4], [4], [2]]
    epochs.next_epoch()
    assert own(epochs, 2) == [[4], [4]]


def test_sources_that_end_epochs():
    assert OpenEpochs().own_samples() is None
