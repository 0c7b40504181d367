"""Modules of DALI that concern its C++ library. The public modules beside this folder have the same names and import everything.

    backend.py                  tensors, memory, versions, and operators
    internal.py                 nested modules by path
    plugin_manager.py           libraries of C++ operators, which asyncdali does not load
    python_function_plugin.py   streams and DLPack capsules in callbacks
    reducers.py                 pickling of functions by value
    sysconfig.py                flags for building C++ operators

May import: devices, the registry of operators, tensors, messages.
"""
