"""Steps of a pipeline made again, and a pipeline at another position.

    replaying.py         makes one step again, with the results of all operators
    beginnings.py        where a replayed session begins: a fresh pipeline, or a checkpoint
    given_batches.py     regrouped batches that are given to a session
    results.py           what a replayed step shows: operators with outputs, and errors of bad samples

    behind.py            the provenance of a step behind regroupings
    walks.py             a walk of a pipeline, from where it begins
    walking.py           which raw samples a step behind regroupings has, without running the steps before
    walked_groups.py     one regrouping on a walk
    planned_parts.py     parts whose condition is known before pixels are computed
    run_parts.py         parts whose condition is computed

    rewinding.py         moves a built pipeline to a checkpoint, or to an iteration counted from the beginning
    comparing.py         pipelines, stored graphs and checkpoints as sides of a comparison

A replayed step is a second session of the same graph: the pipeline itself is not changed. Operators are pure, so their positions say
everything about where it begins. Behind regroupings a step is found by a walk, because each batch depends on those before.

May import: what the pipeline may import; the core, the front and the streams of a pipeline.
"""
