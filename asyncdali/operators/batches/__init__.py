"""Operators that choose, reorder or transfer whole samples of a batch: conditionals, permutations, copies between devices.

    batch_permutation.py, batch_permutation_kernels.py
                      A random permutation of a batch's samples
    conditional.py    The operators of conditionals
    permute_batch.py  A batch of chosen samples of a batch
    transfer.py       Transfers between CPU and GPU: the operators behind `.gpu()` and `.cpu()`

May import what all families of operators may, and `operators.random` (permutations are drawn).
"""
