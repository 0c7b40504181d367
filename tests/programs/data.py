"""The files that the programs read: tiny ones, made with Pillow, NumPy, PyAV and the standard library."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import wave
from pathlib import Path

import numpy as np
from PIL import Image

SIZES = [(48, 64), (56, 40), (64, 64), (40, 72), (52, 60), (44, 48)]


def picture(k: int) -> np.ndarray:
    """Smooth colours with an edge, uint8[height, width, 3]."""
    height, width = SIZES[k % len(SIZES)]
    y, x = np.mgrid[:height, :width].astype(np.float32)
    colours = np.stack([y * 3 + k * 11, x * 2 + k * 5, (x + y) * 1.5 + 40 * k], 2) % 256
    colours[height // 4 : height // 2, width // 3 : width // 2] = (250, 20 * k % 256, 90)
    return colours.astype(np.uint8)


def make(folder: Path) -> None:
    """Make all files below `folder`."""
    for name in ("jpeg/a", "jpeg/b", "png", "numpy", "audio", "coco", "masks"):
        (folder / name).mkdir(parents=True)
    encoded = []
    for k in range(6):
        image = Image.fromarray(picture(k))
        image.save(folder / "jpeg" / "ab"[k % 2] / f"{k}.jpg", quality=92)
        image.save(folder / "png" / f"{k}.png")
        encoded.append((folder / "png" / f"{k}.png").read_bytes())
        np.save(folder / "numpy" / f"{k}.npy", picture(k).astype(np.float32)[:, :, 0] / 7)
        _sound(folder / "audio" / f"{k}.wav", k)
    (folder / "list.txt").write_text("".join(f"{k}.png {10 * k}\n" for k in range(6)))
    manifest = [
        {"audio_filepath": str(folder / "audio" / f"{k}.wav"), "duration": 0.25 + k / 50, "text": "abc"[: k % 3 + 1]} for k in range(6)
    ]
    (folder / "manifest.json").write_text("".join(json.dumps(line) + "\n" for line in manifest))
    _coco(folder / "coco")
    _tfrecord(folder, encoded)
    _webdataset(folder / "shard.tar", encoded)
    _recordio(folder, encoded)
    _video(folder / "clip.avi")


def _sound(path: Path, k: int) -> None:
    samples = 4000 + 320 * k
    t = np.arange(samples) / 16000
    loud = np.where((t > 0.05) & (t < 0.2), 1.0, 0.001)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes((8000 * loud * np.sin(2 * np.pi * (300 + 100 * k) * t)).astype("<i2").tobytes())


def _coco(folder: Path) -> None:
    images, annotations = [], []
    for k in range(6):
        height, width = SIZES[k]
        Image.fromarray(picture(k)).save(folder / f"{k}.png")
        images.append({"id": k + 1, "file_name": f"{k}.png", "height": height, "width": width})
        for j in range(1 + k % 2):
            x, y, w, h = 4 + 6 * j, 5 + 3 * k, 20 + 2 * j, 15
            ring = [x, y, x + w, y, x + w, y + h, x, y + h]
            annotations.append({
                "id": len(annotations) + 1, "image_id": k + 1, "category_id": 1 + j, "bbox": [x, y, w, h], "area": w * h, "iscrowd": 0,
                "segmentation": [ring],
            })  # fmt: skip
    categories = [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}]
    (folder / "annotations.json").write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))


def _crc(data: bytes) -> int:
    """CRC-32C, masked as TFRecord files have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _field(number: int, data: bytes) -> bytes:
    return _number(number << 3 | 2) + _number(len(data)) + data


def _number(value: int) -> bytes:
    out = b""
    while True:
        out += bytes([value & 127 | (128 if value > 127 else 0)])
        value >>= 7
        if not value:
            return out


def _tfrecord(folder: Path, encoded: list[bytes]) -> None:
    records, index, at = b"", "", 0
    for k, image in enumerate(encoded):
        features = {
            "image/encoded": _field(1, _field(1, image)), "image/class": _field(3, _field(1, _number(k))),
            "image/weights": _field(2, _field(1, struct.pack(f"<{k % 3 + 1}f", *range(k % 3 + 1)))),
        }  # fmt: skip
        entries = b"".join(_field(1, _field(1, name.encode()) + _field(2, value)) for name, value in features.items())
        example, length = _field(1, entries), 0
        length = len(example)
        header = struct.pack("<Q", length)
        record = header + struct.pack("<I", _crc(header)) + example + struct.pack("<I", _crc(example))
        records, index, at = records + record, index + f"{at} {len(record)}\n", at + len(record)
    (folder / "train.tfrecord").write_bytes(records)
    (folder / "train.idx").write_text(index)


def _webdataset(path: Path, encoded: list[bytes]) -> None:
    index = []
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for k, image in enumerate(encoded):
            parts = []
            for extension, data in (("png", image), ("cls", struct.pack("<i", k))):
                info = tarfile.TarInfo(f"sample{k}.{extension}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
                parts.append((extension, archive.offset - (len(data) + 511) // 512 * 512, len(data), info.name))
            index.append(parts)
    lines = [f"v1.2 {len(index)}"]
    lines += [" ".join(f"{extension} {at} {size} {name}" for extension, at, size, name in parts) for parts in index]
    path.with_suffix(".idx").write_text("\n".join(lines) + "\n")


def _recordio(folder: Path, encoded: list[bytes]) -> None:
    data, index = b"", ""
    for k, image in enumerate(encoded):
        index += f"{k}\t{len(data)}\n"
        body = struct.pack("<IfQQ", 0, float(k), k, 0) + image
        data += struct.pack("<II", 0xCED7230A, len(body)) + body + bytes(-len(body) % 4)
    (folder / "train.rec").write_bytes(data)
    (folder / "train.rec.idx").write_text(index)


def _video(path: Path) -> None:
    try:
        import av
    except ImportError:  # the programs that need this file are skipped
        return
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=25, options={"qscale": "2"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj420p"
        for k in range(20):
            for packet in stream.encode(av.VideoFrame.from_ndarray(np.roll(picture(0), 2 * k, 1), format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)


def caffe_database(folder: Path) -> bool:
    """A Caffe database of the pictures; False where LMDB is not installed."""
    try:
        import lmdb
    except ImportError:
        return False
    with lmdb.open(str(folder / "caffe"), map_size=1 << 24) as database, database.begin(write=True) as transaction:
        for k in range(6):
            image = (folder / "png" / f"{k}.png").read_bytes()
            datum = _field(4, image) + _number(5 << 3) + _number(k) + _number(7 << 3) + _number(1)
            transaction.put(f"{k:08}".encode(), datum)
    return True
