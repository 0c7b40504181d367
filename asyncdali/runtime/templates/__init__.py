"""Plans that are copied: while shapes stay equal, a template of a plan is copied, and addresses are added to it.

Planning an operator takes 20 to 400 us in the interpreter, however small the batch is. A pipeline whose samples have one size makes the
same plan in every iteration; only addresses, and the positions of random streams, differ. A copy takes 6 to 10 us. A segment whose
operators all have templates is copied as a whole; on a GPU this is the upload of an iteration.

An operator asks for copies with ``repeatable = True``. A template is made by planning over views of the inputs, which have nothing but
what the key covers. Addresses are handles there, and tables declare which words are addresses, and of what. Nothing is compared.

What happens to an operator, by how often a key has occurred::

    once            planned as always
    twice           views.py --> `plan` --> outlines.py --> host.py, whole.py or device.py: a template, kept in tables.py
    more often      the template is copied, and addresses are added (compiled/relocation.py)

    keys.py      the data that the plans of a template may depend on
    views.py     inputs and iteration, as `plan` sees them while its plan becomes a template
    outlines.py  plans over views, and the block of words that their tables declare
    tables.py    the templates of an operator or a segment, by key
    host.py      templates of an operator's steps
    whole.py     templates of a segment's job
    brief.py     templates of calls of dynamic mode: one compiled call copies the job and does it
    device.py    templates of a GPU's uploads and launches

May import: the imports of `asyncdali.runtime`.
"""

from __future__ import annotations

from .tables import Templates, call_templates, operator_templates, segment_templates

__all__ = ["Templates", "call_templates", "operator_templates", "segment_templates"]
