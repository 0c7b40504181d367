"""Names of other projects that the pages link to, for builds without a network.

Sphinx's intersphinx reads an inventory of names from the site of each project. CI has no network, and a build must not depend on the sites
of others. So the few names that the pages use are here, and are written as an inventory in Sphinx's format.
"""

from __future__ import annotations

import zlib
from pathlib import Path

PROJECTS = {
    "torch": ("https://docs.pytorch.org/docs/stable/", {
        "torch.utils.data.DataLoader": ("class", "data.html#torch.utils.data.DataLoader"),
        "torch.utils.data.IterableDataset": ("class", "data.html#torch.utils.data.IterableDataset"),
        "torch.manual_seed": ("function", "generated/torch.manual_seed.html#torch.manual_seed"),
    }),
    "numpy": ("https://numpy.org/doc/stable/", {
        "numpy.ndarray": ("class", "reference/generated/numpy.ndarray.html#numpy.ndarray"),
        "numpy.asarray": ("function", "reference/generated/numpy.asarray.html#numpy.asarray"),
        "numpy.concatenate": ("function", "reference/generated/numpy.concatenate.html#numpy.concatenate"),
        "numpy.from_dlpack": ("function", "reference/generated/numpy.from_dlpack.html#numpy.from_dlpack"),
        "numpy.random": ("module", "reference/random/index.html#module-numpy.random"),
        "numpy.random.default_rng": ("function", "reference/random/generator.html#numpy.random.default_rng"),
    }),
    "jax": ("https://docs.jax.dev/en/latest/", {
        "jax.Array": ("class", "_autosummary/jax.Array.html#jax.Array"),
        "jax.ShapeDtypeStruct": ("class", "_autosummary/jax.ShapeDtypeStruct.html#jax.ShapeDtypeStruct"),
        "jax.distributed": ("module", "jax.distributed.html#module-jax.distributed"),
    }),
}  # fmt: skip
"""Project -> address of its site, and name -> kind and place on the site. Every name is used by a page."""
SHORT = {"np": "numpy"}
"""What pages write for a project -> the project."""


def inventory(project: str) -> bytes:
    """The names of a project as the file objects.inv that Sphinx reads."""
    lines = [f"{name} py:{kind} 1 {place} -\n" for name, (kind, place) in sorted(PROJECTS[project][1].items())]
    head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n# The remainder of this file is compressed using zlib.\n"
    return head.encode() + zlib.compress("".join(lines).encode())


def write(folder: Path) -> dict[str, tuple[str, str]]:
    """Write the inventories to `folder`. Returns the setting `intersphinx_mapping`."""
    folder.mkdir(parents=True, exist_ok=True)
    for project in PROJECTS:
        (folder / f"{project}.inv").write_bytes(inventory(project))
    return {project: (address, str(folder / f"{project}.inv")) for project, (address, _) in PROJECTS.items()}
