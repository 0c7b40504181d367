"""Messages, batches and descriptors between a training process and its engines.

    program.py               the graph, once
    channel.py               messages and descriptors
    encoding.py, blocks.py   batches as bytes, in shared memory
    failures.py              errors as data
    handshake.py             an engine may make iterations only if it would make the same bits as the training process
    reach.py                 digests of everything that a program's functions reach (docs/fleet.md)

May import: what the room may import.
"""
