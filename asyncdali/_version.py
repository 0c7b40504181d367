"""The version, for the package and its metadata.

The first three numbers are the release of DALI whose Python API is implemented. The fourth counts our own releases for that API. Programs
for DALI compare ``__version__`` in many ways: as a string (``>= "1.11"``), with ``packaging.version``, with ``LooseVersion``, or as
``tuple(map(int, __version__.split(".")))``. Four plain numbers work with all of them. The last way fails with ``2.4.0.post1`` and with
``2.4.0+ours.1``, and a local version (``+``) cannot be uploaded to a package index.
"""

__version__ = "2.4.0.1"
