"""Dynamic mode's machinery; ``asyncdali.dynamic`` has its public names.

    values -> conversion, indexing, printing, sharing       what users hold
    calls, arithmetic -> engine (or cuda) -> brief -> bricks    how a call runs
    contexts, devices, modes, streams                       where and when it runs

    arithmetic.py  Operators of Python on Tensors and Batches, and the functions of `math`
    brief.py       Calls that are found by their arguments and the kinds of their data, and run a template
    bricks.py      Bricks: operators with their constants, ready to be called with any data
    calls.py       A call of an operator: what is data and what is constant, how many samples, which device, and which brick
    captures.py    Captured loops: what the body of a loop calls is computed one step ahead, on a thread in the background
    checkpoints.py Checkpoints of dynamic mode: the states of readers and random generators by name, as JSON
    contexts.py    Evaluation contexts: which device and threads the calls of a thread use
    conversion.py  Makes Tensors and Batches of data from Python and from other libraries
    cuda.py        Calls on a CUDA device: one engine per GPU, whose operators queue their work on one stream
    decoding.py    Files and encoded data: paths as inputs, `imread`, and functions that decode a list of ``bytes``
    devices.py     Devices of dynamic mode: the CPU, and GPUs by number
    dtypes.py      Element types of dynamic mode: one object per type, with a short name
    engine.py      Memory and threads of a context: where the bricks of a call run
    functions.py   Operators as functions of dynamic mode, generated from their declarations
    fused.py       Calls of a captured loop as one graph: intermediate results need no memory of their own, as in pipelines
    indexing.py    Subscripts: ``tensor[...]`` by NumPy's rules, ``batch.slice[...]`` inside of every sample
    language.py    Gives Tensors and Batches the functions of their methods
    loops.py       The captured loop that the calls of a thread belong to
    mathematics.py Mathematical functions on Tensors, Batches and numbers: `math`
    modes.py       When calls are computed: modes of evaluation, per thread
    nodes.py       Nodes for torchdata: readers, functions on entries of dictionaries, conversion to torch
    printing.py    The text of Tensors and Batches
    readers.py     Readers as classes of dynamic mode
    rng.py         Random generators of dynamic mode: streams of 32-bit words whose state is a position
    sharing.py     Tensors and Batches for other libraries: DLPack, torch, the CUDA array interface
    sources.py     Data from Python, pulled by calling: the ExternalSource of dynamic mode
    spellings.py   The right spelling of names that users of pipelines, NumPy and torch try first
    states.py      States of readers: positions as text, with what they belong to
    streams.py     CUDA streams of dynamic mode
    stubs.py       Type stubs of ``asyncdali.dynamic``, made of its functions
    surface.py     The names of ``asyncdali.dynamic``, found at their first use
    values.py      Tensor and Batch: results of calls, and data from Python
    work.py        Calls that are computed later

May import the runtime, the graph, operators, devices, sources, tensors and types.
"""
