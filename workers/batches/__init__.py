"""The parent's view of batches in progress: requests (tickets, tasks, queues), memory (slots), answers, and the assembled batch.

May import the standard library, numpy and this package; never asyncdali.
"""
