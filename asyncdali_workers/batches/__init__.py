"""The parent's view of batches in progress: requests (tickets, tasks, queues), memory (slots), answers, and the assembled batch.

    landing.py      The buffer for answers, which survives an interrupt
    outstanding.py  The tickets that are not answered yet
    positions.py    The position of each stream, as far as its worker has answered
    prediction.py   Predicts the next batch of a source from the last ones

May import the standard library, numpy and this package; never asyncdali.
"""
