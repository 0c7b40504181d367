"""The parent's view of batches in progress: requests (tickets, tasks, queues), memory (slots; `worker.writing` is the
worker's side), answers, and the assembled batch.

    answers.py      Processes the messages of workers: answers to tasks, and reports of their start
    batches.py      Assembles a batch from the answers of its slices: arrays over shared memory, without touching a sample
    landing.py      The buffer for answers, which survives an interrupt
    outstanding.py  The tickets that are not answered yet
    positions.py    The position of each stream, as far as its worker has answered
    prediction.py   Predicts the next batch of a source from the last ones
    queues.py       Tasks that wait for workers: the rings in shared memory, and the tasks that do not fit into the rings yet
    slots.py        The parent's side of shared memory: extents of the shared file, lent to batches and taken back with their last view
    tasks.py        Turns a request for a batch into tasks: writes the schema into the slot and gives each slice its part
    tickets.py      A requested batch: the answers of its slices, and the batch assembled from them

May import the standard library, numpy and this package; never asyncdali.
"""
