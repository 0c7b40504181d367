"""Random sampling: streams of random numbers, and the order in which a reader gives its samples.

Both are functions of (seed, position) and have no state. random_streams: Philox, bit for bit as DALI's; order: shuffling; sharding: shards;
seeds: automatic seeds of operators.
May import `compiled`, `errors` and `workers`; no operators and no readers.
"""
