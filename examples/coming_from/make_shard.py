"""Write pictures and their classes as a tar file for WebDataset. `python make_shard.py FOLDER pictures.tar`"""

import io
import sys
import tarfile
from pathlib import Path


def main(folder: str, target: str) -> None:
    paths = sorted(Path(folder).glob("*/*.jpg"))
    classes = sorted({path.parent.name for path in paths})
    with tarfile.open(target, "w") as tar:
        for number, path in enumerate(paths):
            parts = {"jpg": path.read_bytes(), "cls": str(classes.index(path.parent.name)).encode()}
            for ending, data in parts.items():
                entry = tarfile.TarInfo(f"{number:06}.{ending}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    main(*sys.argv[1:])
