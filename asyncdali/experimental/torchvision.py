"""DALI's ``experimental.torchvision`` is not here: importing it says what to use instead."""

from . import refused

raise refused("torchvision")
