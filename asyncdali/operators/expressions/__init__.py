"""Arithmetic on nodes, compiled to one loop per tree of operations; indexing.

    code.py             The code of a program
    cuda_code.py        The CUDA kernel of a program
    eager.py            Base of expressions and subscripts
    expressions.py      Arithmetic on nodes
    expressions_kernels.py, expressions_tables.py
                        The compiled step of arithmetic expressions
    float_functions.py  The C library's functions of float32, as operations that a loop over elements can vectorise
    function_probes.py  Whether our vectorised functions give the C library's bits on this machine
    llvm_compiler.py    LLVM, from intermediate code to machine code, without Numba's front end
    loops.py            Loops in LLVM's intermediate code
    probe_code.py       The code that counts for how many numbers a function and the C library differ
    programs.py         Programs: arithmetic expressions, also whole trees, as data
    shapes.py           Broadcasting of a whole batch, vectorised: output shapes, and the loop structure of each sample
    stored_code.py      Generated code of this room, kept in the cache of kernels
    subscript.py, subscript_kernels.py
                        Indexing of nodes: ``x[1]``, ``x[2:7, ::-1]``, ``x[node]``, new axes
    types.py            Operations of arithmetic expressions: names, symbols, and the element type of their results
    values.py           Values of LLVM's intermediate code with Python's operators, which make formulas readable

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
