"""Names that programs use although they belong to DALI's implementation: modules of its C++ library, and attributes with an underscore.

The public modules beside this folder have the names of the first six and import everything. Classes elsewhere derive from the others.

    backend.py                  tensors, memory, versions, and operators
    internal.py                 nested modules by path
    plugin_manager.py           libraries of C++ operators, which asyncdali does not load
    python_function_plugin.py   streams and DLPack capsules in callbacks
    reducers.py                 pickling of functions by value
    sysconfig.py                flags for building C++ operators

    iterator_attributes.py      attributes of iterators of frameworks
    ops_attributes.py           attributes of ``ops`` objects
    pipeline_attributes.py      attributes of pipelines

May import: devices, graphs, the registry of operators, the front of pipelines, epochs of iterators, tensors, messages.
"""
