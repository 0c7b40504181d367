"""A machine whose memory size a test chooses."""

from __future__ import annotations

from asyncdali_workers import limits


class Machine:
    """A machine with other files that describe its memory."""

    def __init__(self, folder, monkeypatch):
        self.proc, self.groups = folder / "proc", folder / "cgroup"
        (self.proc / "self").mkdir(parents=True)
        self.groups.mkdir()
        monkeypatch.setattr(limits, "PROC", self.proc)
        monkeypatch.setattr(limits, "CGROUPS", self.groups)

    def free(self, size):
        (self.proc / "meminfo").write_text(f"MemTotal: 999999999 kB\nMemFree: 1 kB\nMemAvailable: {size >> 10} kB\n")

    def belongs_to(self, text):
        (self.proc / "self" / "cgroup").write_text(text)

    def group(self, path, **files):
        folder = self.groups / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(str(text))
