"""DALI's place of dynamic mode: the same module as ``asyncdali.dynamic``, with its submodules."""

import sys

from .. import dynamic

for _name, _module in list(sys.modules.items()):
    if _name == dynamic.__name__ or _name.startswith(f"{dynamic.__name__}."):
        sys.modules[__name__ + _name.removeprefix(dynamic.__name__)] = _module
