"""Simulated slow storage: a shared library that delays opening files below a folder, as a FUSE or network mount does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void delay(const char *path) {
    const char *folder = getenv("SLOW_FOLDER");
    if (folder && path && strncmp(path, folder, strlen(folder)) == 0) usleep(atoi(getenv("SLOW_MICROSECONDS")));
}

#define SLOW(name) \
    int name(const char *path, int flags, ...) { \
        static int (*real)(const char *, int, ...); \
        va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
        if (!real) real = dlsym(RTLD_NEXT, #name); \
        delay(path); \
        return real(path, flags, mode); \
    }
SLOW(open)
SLOW(open64)
"""


def compiler() -> str | None:
    """The C compiler, if there is one."""
    return shutil.which("gcc") or shutil.which("cc")


def slow_files(build: Path, folder: Path, microseconds: int) -> dict[str, str]:
    """Environment for a process in which opening a file in `folder` is delayed. `build` is the folder of the library."""
    source, library = build / "slow_files.c", build / "slow_files.so"
    source.write_text(_SHIM)
    subprocess.run([str(compiler()), "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "SLOW_FOLDER": str(folder), "SLOW_MICROSECONDS": str(microseconds)}
