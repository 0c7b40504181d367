"""The quick checks of ``asyncdali doctor``, which every ``build()`` runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from . import doctor_checks, doctor_setup

if TYPE_CHECKING:
    from ..options import PipelineOptions

log = logging.getLogger("asyncdali")

_logged: set[str] = set()


def at_build(options: PipelineOptions, operators: set[str], parallel: bool) -> None:
    """Log the findings of the quick checks for a pipeline with these operators, once per process and message. Never raises.

    `parallel`: the pipeline has worker processes. ``ASYNCDALI_DOCTOR=0`` turns the checks off.
    """
    if os.environ.get("ASYNCDALI_DOCTOR") == "0":
        return
    for finding in examine(doctor_setup.setup_of_options(options, operators, parallel), doctor_checks.QUICK):
        if finding.message not in _logged:
            _logged.add(finding.message)
            log.warning("%s", finding.message)


def examine(what: doctor_setup.MachineSetup, which: Iterable[doctor_checks.Check] = doctor_checks.ALL) -> list[doctor_checks.Finding]:
    """The findings of the checks. A check that fails itself is logged and finds nothing: it must not stop a pipeline."""
    found = []
    for check in which:
        try:
            finding = check(what)
        except Exception:
            log.debug("the check %s failed", check.__name__, exc_info=True)
            continue
        if finding is not None:
            found.append(finding)
    return found
