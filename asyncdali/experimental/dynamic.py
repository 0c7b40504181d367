"""DALI's ``experimental.dynamic`` is not here: importing it says what to use instead."""

from . import refused

raise refused("dynamic")
