"""Users' functions.

    numba_function.py, numba_function_kernels.py
                                        experimental.numba_function: a user's function that Numba compiles and that runs without the
                                        interpreter
    numba_function_gpu_kernels.py       Users' kernels for `numba.cuda`: their compilation for a GPU, and the arguments of their launches
    numba_function_on_host_kernels.py, numba_function_on_host_tables.py
                                        Kernels for `numba.cuda` without a GPU
    python_function.py, python_function_kernels.py
                                        python_function and dl_tensor_python_function: the user's Python code in the graph

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
