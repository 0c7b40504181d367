"""Random sampling: streams of random numbers, and the order in which a reader gives its samples.

Both are functions of (seed, position) and have no state. random_streams: positions in Philox's streams, bit for bit as DALI's
(random_streams_kernels computes the words); order: shuffling; sharding: shards;
seeds: automatic seeds of operators.

    shuffle_jumps.py           Jumps of the generator that shuffles, over whole shard-epochs
    order.py                   The order of a reader's samples: an index stream, computed on indices alone and identical to DALI 2.4's
    order_kernels.py, order_tables.py
                               Compiled part of ``order``
    philox_vectors.py          Philox4x32-10 words and normal numbers for many elements at a time, bit-identical to
                               ``random_streams_kernels``
    random_distributions_kernels.py
                               Distributions of the GNU C++ library over a stream of 32-bit words, as DALI uses them
    random_draw_tables.py      The table of the numbers of one batch
    random_streams.py          Random numbers and random crop windows as a function of (seed, position): Philox4x32-10, addressed and
                               converted bit for bit like DALI 2.4
    random_streams_kernels.py  Compiled part of ``random_streams``: Philox4x32-10 words and the distributions computed from them
    seeds.py                   Automatic seeds of a pipeline's operators: drawn by the C++ standard's seed sequence, as in DALI
    sharding.py                Shards: contiguous parts of a list of samples, one for each process
    stream_kernels.py, stream_tables.py
                               Random streams of samples, opened at a position in a table

May import `compiled`, `errors` and `workers`; no operators and no readers.
"""
