"""Files behind URLs: requests with retries and limits, given up at the end of a pipeline, and batches fetched ahead of need.

May import `sampling`, `access`, `errors` and `workers`; no other room of the readers.
"""
