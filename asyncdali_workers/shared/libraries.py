"""The shared libraries that are loaded in this process. Importing this module is cheap."""

from __future__ import annotations


def loaded_libraries(part: str) -> list[str]:
    """Paths of the shared libraries in this process whose file name contains `part`."""
    found = set()
    try:
        with open("/proc/self/maps") as maps:
            for line in maps:
                path = line.rstrip("\n").partition("/")[2]
                if part in path.rpartition("/")[2]:
                    found.add("/" + path)
    except OSError:
        pass
    return sorted(found)
