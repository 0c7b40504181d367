"""Tables of the driver: a job, the counts of a job, and a thread's record."""

from __future__ import annotations

from .tables import Field, Table

THREAD = Table(
    "THREAD",
    Field("scratch", "address", "of the thread's scratch memory, a multiple of 64"),
    Field("scratch_bytes", "int64", "bytes of the scratch memory"),
    Field("error_text", "address", "where a step may leave a NUL-terminated text about the current sample"),
    Field("error_bytes", "int64", "room for that text"),
    Field("times", "OWN_TIMES", "the thread's share of a job's times, with an int64 for each step behind the record"),
    Field("times_words", "int64", "room there"),
)
"""Record of a thread; steps get its address."""

FLAGS = Table(
    "FLAGS",
    Field("next", "int64", "the sample that is taken next; threads add to it"),
    Field("stop", "int64", "not 0: no more samples are taken"),
    Field("failed", "int64", "1: a step gave a status that is not 0"),
)
"""The shared state of the threads of a job and the interpreter."""

JOB = Table(
    "JOB",
    Field("samples", "int64", "samples of the batch"),
    Field("flags", "FLAGS", "of this job"),
    Field("steps", "int64", "steps of each sample"),
    Field("functions", "addresses", "of the steps"),
    Field("contexts", "addresses", "of the steps' tables"),
    Field("slots", "int64", "scratch slots"),
    Field("slot_arrays", "int64[samples] of each slot", "where the address of each sample's slot is stored"),
    Field("slot_offsets", "int64[slots]", "bytes from the start of a thread's scratch to each slot"),
    Field("status", "int64[samples]", "0, or (step + 1) << 32 | the step's status"),
    Field("texts", "uint8[samples, text_bytes]", "error texts"),
    Field("text_bytes", "int64", "room for each error text"),
    Field("times", "TIMES", "what is counted, with an int64 for each step behind the record; 0: nothing is counted"),
    Field("needs", "int64", "what a thread must have: bytes of scratch, words for times", ("scratch_bytes", "times_words")),
    Field("crew_next", "JOB", "the job that a crew takes next, while this one waits"),
    Field("crew_left", "int64", "threads that may still take part, while the job waits; 0: it does not wait"),
    Field("crew_active", "int64", "threads that take part"),
    Field("crew_over", "int64", "1: a thread has found no sample left, so no other thread begins"),
    Field("crew_waits", "int64", "1: a thread outside of the crew waits for the end and reports it"),
    Field("crew_report", "CREW", "the crew whose thread reports the end; 0: the thread that leaves last does so itself"),
    Field("crew_joint", "address", "of the number of jobs that are reported together and have not ended; 0: reported alone"),
    Field("crew_call", "int64", "1: a call of Python, with only the words of the crew; 2: an end to be reported"),
)
CREW = Table(
    "CREW",
    Field("mutex", "pthread_mutex_t", "guards all that follows, and the words of jobs that are the crew's", tuple("01234567")),
    Field("wake", "pthread_cond_t", "there is work, or a call back to Python", tuple("01234567")),
    Field("left", "pthread_cond_t", "the last thread has left a job whose end is waited for", tuple("01234567")),
    Field("run", "address", "of the compiled function that takes part in a job (driver.run_job)"),
    Field("first", "JOB", "the job that is taken next; 0: none"),
    Field("last", "JOB", "the job that was added last"),
    Field("waiting", "int64", "threads that wait for work"),
    Field("closed", "int64", "1: threads end when no job is left"),
    Field("recalled", "int64", "how often all threads were asked to come back to Python"),
    Field("tells", "int64", "1: `descriptor` is written when a job is added to an empty list"),
    Field("descriptor", "int64", "of an eventfd"),
    Field("told", "int64", "how often the eventfd was written, as it was read last"),
)
"""The shared state of the worker threads of a pipeline."""

GATE = Table(
    "GATE",
    Field("mutex", "pthread_mutex_t", "guards all that follows", tuple("01234567")),
    Field("wake", "pthread_cond_t", "the gate was opened", tuple("01234567")),
    Field("attribute", "pthread_condattr_t", "of the condition: its clock"),
    Field("deadline", "timespec", "when the wait ends, by the monotonic clock: seconds and nanoseconds", "01"),
    Field("open", "int64", "1: the gate is open"),
    Field("begin", "address", "of the commands to execute behind the gate"),
    Field("end", "address", "behind these commands"),
)
"""A gate at which a thread waits (:mod:`.gate`)."""

WATCH = Table(
    "WATCH",
    Field("perform", "address", "of the function that executes commands: perform(driver, begin, end) -> result"),
    Field("driver", "address", "first argument of the function"),
    Field("begin", "address", "of the commands that ask for events"),
    Field("end", "address", "behind these commands"),
    Field("descriptors", "address", "of struct pollfd[count]"),
    Field("count", "int64", "number of descriptors"),
    Field("nanoseconds", "int64", "longest wait"),
    Field("pause", "timespec", "until events are asked for again: seconds and nanoseconds", "01"),
)
"""A wait for a GPU's events or for descriptors, whichever is first (:mod:`.watch`)."""

TIMES = Table(
    "TIMES",
    Field("busy", "int64", "ns of all threads in the job"),
    Field("begun", "int64", "when the thread of sample 0 entered, in ns"),
    Field("processor", "int64", "processor time of all threads in ns, if it is asked for"),
    Field("with_processor", "int64", "1: processor time is asked for, which takes system calls"),
    Field(
        "slowest",
        "int64",
        "(longest processor time of a sample << 20) | that sample, if processor time is asked for: wall-clock time would name the sample "
        "whose thread was interrupted",
    ),
)
"""The times of a job, to which threads add. The time of each step follows; these times add up to `busy`."""

COPY = Table(
    "COPY",
    Field("length", "int64", "number of words of the job and its tables"),
    Field("source", "address", "of the words to copy"),
    Field("places", "int64[count, 2]", "words of the copy, and the base that is added to each: 0 is the copy, others are given"),
    Field("count", "int64", "number of places"),
    Field("begin", "int64", "bytes from the start of the thread's scratch memory to the copy"),
    Field("run", "address", "of driver.run_job"),
)
"""A job that is copied to a thread's scratch memory and done there (:func:`.driver.run_copy`)."""

OWN_TIMES = Table("OWN_TIMES", Field("clock", "int64", "a timespec of the system's clock", ("seconds", "nanoseconds")))
"""A thread's memory for measuring. The thread's time of each step follows."""
