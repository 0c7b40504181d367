"""Files behind URLs: requests with retries and limits, given up at the end of a pipeline, and batches fetched ahead of need.

    downloads.py  Bytes of remote files, read only as far as there is memory for them
    prefetch.py   Remote batches are fetched before they are needed, on threads that end with the pipeline
    remote.py     Files behind URLs (s3://, gs://, http://, memory:// ...), through fsspec
    requests.py   Remote requests that another thread can cancel

May import `sampling`, `access`, `errors` and `workers`; no other room of the readers.
"""
