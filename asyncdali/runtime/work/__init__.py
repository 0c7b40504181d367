"""The work on one segment of one iteration: prepare, plan, place, compute.

    segments.py          the phases of a segment
    jobs.py              work for threads
    branches.py          partial batches of conditionals
    pace.py              segments that take less time than waking a thread for them
    making.py            operators are made from a plan
    immediate.py         operators one by one, for debug and dynamic mode
    call_placement.py    where these run: on the calling thread, or also on a GPU
    dry_runs.py          plans of any iteration without pixels
    choices.py           windows and draws that an iteration keeps for its provenance
    built.py             operators of a built pipeline, as jobs and templates know them
    output_lists.py      the lists of tensors that users get
    output_copies.py     copies of outputs that lie in the user's memory

May import: what the room may import; ``templates``, ``counting`` and ``gpu``.
"""
