"""File names that come from data: entries of lists, manifests and annotations, and which of them a reader may open.

The program is trusted, its data is not. A path given by the program may be anywhere and may be a URL. An entry is a name in a data file. It
must stay below the root that the program gave, and must not choose a scheme. Only names are checked. Symbolic links inside the root belong
to the root's owner. Therefore ``..`` is refused even if the path would return to the root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...access import EVERYTHING, Access, climbs
from ...operators.base import Arg, Spec
from ..remote.remote import folder_of, is_remote

REMOTE_ARG = Arg("allow_remote_entries", "bool", False, "Allow URLs as names in data.", only_here=True)
ENTRY_ARGS = (
    Arg(
        "allow_outside_root", "bool", False, "Allow names in data files to lead out of the root, with `..` or as absolute paths.",
        only_here=True,
    ),
    REMOTE_ARG,
)
"""Arguments of readers whose files are named by data."""

_CLIMBING = re.compile(rb"\.\.|://")
_ABSOLUTE = re.compile(rb"\.\.|://|(?:\A|\0)/")
_BELOW_A_URL = re.compile(rb"\.\.|://|(?:\A|\0)/|::|%")
_LOCAL_SCHEMES = ("file", "local")


@dataclass(frozen=True)
class EntryRules:
    """Which entries of one data file may be opened.

    Args:
        root: the folder of relative entries; "" is the working directory. Entries stay below it.
        source: the data file, for messages.
        anywhere: absolute local paths are allowed, because the program gave no root.
        outside: `allow_outside_root`.
        remote: `allow_remote_entries`.
        below: another folder below which URLs are allowed: that of a remote list.
        access: limits of the whole pipeline.
    """

    root: str
    source: str
    anywhere: bool = False
    outside: bool = False
    remote: bool = False
    below: str = ""
    access: Access = EVERYTHING

    @classmethod
    def of(cls, spec: Spec, access: Access, source: str, root: str | None, folder: str) -> EntryRules:
        """The rules of a reader with :data:`ENTRY_ARGS`. Without a `root`, relative entries are below `folder`."""
        outside, remote = spec.constant("allow_outside_root"), spec.constant("allow_remote_entries")
        home = folder_of(source) if is_remote(source) else ""
        if root:
            return cls(root, source, False, outside, remote, "", access)
        return cls(folder, source, not is_remote(folder), outside, remote, home, access)

    def check(self, names: Sequence[str]) -> None:
        """Raise RuntimeError for the first entry that must not be opened."""
        remote = is_remote(self.root)
        doubtful = _BELOW_A_URL if remote else _CLIMBING if self.anywhere or self.outside else _ABSOLUTE
        # One search over all names together: a list may have millions, and most of them need no closer check.
        if doubtful.search(b"\0".join(self._encoded(names))):
            roots = self._roots()
            for number, name in enumerate(names):
                reason = self._refused(name, roots, remote)
                if reason is not None:
                    raise RuntimeError(self._message(number, name, *reason))
        if self.access.limited:
            self._check_access(names)

    def _encoded(self, names: Sequence[str]) -> list[bytes]:
        """The names as the system takes them. RuntimeError for half a surrogate pair, which JSON can write (``"\\ud800"``)."""
        try:
            return [os.fsencode(name) for name in names]
        except UnicodeEncodeError as error:
            number = next(k for k, name in enumerate(names) if name == error.object)
            raise RuntimeError(
                f"entry {number} of {self.source} is not a file name: {ascii(names[number])[:200]} has a character that no file name "
                "can have (half a surrogate pair)"
            ) from None

    def _check_access(self, names: Sequence[str]) -> None:
        """The same for a graph with limited access. Plain names below a readable root need no check of their own."""
        root = self.access.may_read(self.root or ".")
        for name in names:
            if not root or os.path.isabs(name) or ".." in name or ":" in name or "%" in name:
                self.access.check_read(self.joined(name), f"an entry of {self.source}")

    def joined(self, name: str) -> str:
        """The path to open for an entry."""
        return name if is_remote(name) or not self.root else os.path.join(self.root, name)

    def _roots(self) -> tuple[str, ...]:
        """Allowed beginnings of an absolute entry. The root may be named through a link, or by the link's target."""
        given = [self.root, self.below]
        if not is_remote(self.root):
            given += [os.path.abspath(self.root), os.path.realpath(self.root)]
        return tuple({path.rstrip("/") + "/" for path in given if path})

    def _refused(self, name: str, roots: tuple[str, ...], remote: bool) -> tuple[str, str] | None:
        """Why an entry is refused, with the argument that would allow it; None if it is allowed. `remote`: whether the root is a URL."""
        url = is_remote(name) or (remote and "::" in name)
        if (".." in name or "%" in name) and climbs(name, url or remote) and not self.outside:
            return "the name contains `..`", "allow_outside_root"
        if url:
            if is_remote(name) and "::" not in name and name.startswith(roots):
                return None
            if not self.remote:
                return "the name has a scheme", "allow_remote_entries"
            if _reaches_files(name) and not self.outside:
                return "the scheme of the name leads to local files", "allow_outside_root"
            return None
        if not os.path.isabs(name) or self.anywhere or self.outside or name.startswith(roots):
            return None
        return "the name is an absolute path outside the root", "allow_outside_root"

    def _message(self, number: int, name: str, reason: str, argument: str) -> str:
        shown = name if len(name) <= 200 else f"{name[:200]}..."
        if self.anywhere:
            home = self.root or os.getcwd()
            allowed = f"Entries may be absolute local paths, or names below {home!r}."
        else:
            allowed = f"Entries stay below {self.root!r}."
        return (
            f"Refused to open entry {number} of {self.source}: {shown!r}: {reason}. {allowed} "
            f"If you trust the file, pass {argument}=True to the reader."
        )


def _reaches_files(name: str) -> bool:
    """Whether a URL or a chain of URLs can end at a local file."""
    parts = name.split("::")
    return len(parts) > 1 or parts[0].partition("://")[0].lower() in _LOCAL_SCHEMES
