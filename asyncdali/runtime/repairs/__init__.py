"""Bad samples: an iteration that fails for a sample is made again, with another sample in its place.

An iteration is a function of positions, so it can be made again at any time. The executor makes iterations as always, and knows nothing
of this room. When the consumer takes an iteration that has failed for a sample, the consumer's thread notes the sample's index as bad and
makes the iteration again. Readers give another index in place of one that is known to be bad; which one is a function of (seed, position,
sample, attempt). So the stream depends neither on timing nor on the knowledge of a process, which only saves the second attempt.

    bad_samples.py  Makes a failed iteration again, and decides what is done with bad samples
    feeding.py      The samples from Python of one iteration, with others in the place of bad ones
    quarantine.py   The list of bad samples, in memory and in a file that several processes append to
    replacing.py    The indices that take the place of bad ones

May import: the imports of `asyncdali.runtime`.
"""
