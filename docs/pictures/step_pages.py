"""Makes the pictures of docs/provenance.md: pages about steps of four pipelines in a Chromium, wide and on a phone.

    python docs/pictures/step_pages.py [FOLDER]

It needs Chromium, and PyAV for the video. The data is made from the pictures that ship with asyncdali.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import wave
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import asyncdali
from asyncdali import fn, pipeline_def, types

HERE = Path(__file__).resolve().parent
SHIPPED = Path(asyncdali.__file__).parent / "data" / "pictures"
SIZES = {"wide": (1280, 960, False), "phone": (390, 844, True)}


@pipeline_def(batch_size=12, num_threads=2, seed=11)
def picture():
    encoded, label = fn.readers.file(file_root=str(SHIPPED), random_shuffle=True, name="Reader")
    images = fn.decoders.image_random_crop(encoded, random_area=[0.3, 1.0], name="Decoder")
    images = fn.resize(images, size=[224, 224], name="Resize")
    images = fn.color_twist(images, hue=fn.random.uniform(range=[-40, 40], name="Hue"), saturation=1.4, name="Colours")
    flip = fn.random.coin_flip(name="Flip")
    return fn.crop_mirror_normalize(images, mirror=flip, dtype=types.FLOAT, mean=[120.0], std=[60.0], name="Normalize"), label


@pipeline_def(batch_size=6, num_threads=2, seed=3)
def detection(folder):
    encoded, boxes, labels, masks = fn.readers.coco(
        file_root=folder, annotations_file=f"{folder}/boxes.json", ratio=True, ltrb=True, pixelwise_masks=True, random_shuffle=True,
        name="Reader",
    )  # fmt: skip
    flip = fn.random.coin_flip(name="Flip")
    images = fn.flip(fn.decoders.image(encoded, name="Decoder"), horizontal=flip, name="Image")
    boxes = fn.bb_flip(boxes, ltrb=True, horizontal=flip, name="Boxes")
    centres = (boxes[:, 0:2] + boxes[:, 2:4]) * 0.5
    return images, boxes, labels, fn.flip(masks, horizontal=flip, name="Masks"), centres


@pipeline_def(batch_size=4, num_threads=2, seed=5)
def sound(folder):
    encoded, label = fn.readers.file(file_root=folder, random_shuffle=True, name="Reader")
    samples, rate = fn.decoders.audio(encoded, downmix=True, name="Decoder")
    samples = fn.preemphasis_filter(samples, name="Preemphasis")
    spectrum = fn.spectrogram(samples, nfft=512, window_length=512, window_step=160, name="Spectrogram")
    mel = fn.mel_filter_bank(spectrum, sample_rate=22050, nfilter=64, name="Mel")
    return samples, rate, fn.to_decibels(mel, cutoff_db=-60.0, name="Decibels"), label


@pipeline_def(batch_size=2, num_threads=2, seed=5)
def video(folder):
    frames = fn.readers.video(filenames=[f"{folder}/moving.mp4"], sequence_length=8, random_shuffle=True, name="Reader")
    frames = fn.resize(frames, resize_shorter=120, name="Resize")
    return fn.crop(frames, crop=[112, 112], crop_pos_x=fn.random.uniform(range=[0, 1], name="Place"), name="Crop")


def write_detection(folder: Path) -> None:
    """Discs and bars on the shipped pictures, with boxes and outlines in COCO's format."""
    random = np.random.default_rng(4)
    images, annotations = [], []
    for number, path in enumerate(sorted(SHIPPED.glob("*/*.jpg"))[::5]):
        picture = Image.open(path).convert("RGB").resize((320, 240))
        draw = ImageDraw.Draw(picture)
        for _ in range(3):
            width, height = random.integers(50, 110, 2).tolist()
            left, top = int(random.integers(5, 315 - width)), int(random.integers(5, 235 - height))
            kind = int(random.integers(2))
            colour = tuple(random.integers(0, 255, 3).tolist())
            turns = np.linspace(0, 2 * np.pi, 24, endpoint=False) if kind else np.pi / 4 + np.arange(4) * np.pi / 2
            scale = 1 if kind else np.sqrt(2)
            corners = np.stack([left + width / 2 * (1 + scale * np.cos(turns)), top + height / 2 * (1 + scale * np.sin(turns))], axis=1)
            draw.polygon([tuple(corner) for corner in corners], fill=colour)
            annotations.append({
                "id": len(annotations), "image_id": number, "category_id": kind + 1, "bbox": [left, top, width, height], "iscrowd": 0,
                "area": width * height, "segmentation": [corners.ravel().tolist()],
            })  # fmt: skip
        picture.save(folder / f"{number}.jpg", quality=90)
        images.append({"id": number, "file_name": f"{number}.jpg", "width": 320, "height": 240})
    categories = [{"id": 1, "name": "bar"}, {"id": 2, "name": "disc"}]
    (folder / "boxes.json").write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))


def write_sounds(folder: Path) -> None:
    """Four tones that rise and fall."""
    for kind in range(4):
        (folder / str(kind)).mkdir()
        time = np.arange(44100) / 22050
        pitch = 220 * 2 ** (kind / 3 + np.sin(2 * np.pi * time * (0.5 + kind / 2)) / 2)
        tone = sum(np.sin(2 * np.pi * np.cumsum(pitch * k) / 22050) / k for k in (1, 2, 3, 5)) * np.exp(-2 * (time % 0.5))
        with wave.open(str(folder / str(kind) / "tone.wav"), "wb") as file:
            file.setparams((1, 2, 22050, 0, "NONE", ""))
            file.writeframes((tone * 12000).astype("<i2").tobytes())


def write_video(folder: Path) -> None:
    """A window that moves over a shipped picture."""
    import av

    whole = np.asarray(Image.open(sorted(SHIPPED.glob("3_*/*.jpg"))[2]).convert("RGB").resize((480, 320)))
    with av.open(str(folder / "moving.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = 240, 160, "yuv420p", 4_000_000
        for k in range(48):
            left, top = 5 * k, int(80 + 70 * np.sin(k / 8))
            pixels = np.ascontiguousarray(whole[top : top + 160, left : left + 240])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())


def main(target: Path) -> None:
    """Write the pictures into a folder."""
    sys.path.insert(0, str(HERE.parent.parent / "tests"))
    from helpers.browser import Browser

    target = target.resolve()
    with tempfile.TemporaryDirectory() as name, Browser() as browser:
        os.chdir(name)  # pages name files relative to it
        folders = {kind: Path(kind) for kind in ("detection", "sound", "video")}
        for kind, write in (("detection", write_detection), ("sound", write_sounds), ("video", write_video)):
            folders[kind].mkdir()
            write(folders[kind])
        made = {
            "picture": picture().show(41), "detection": detection("detection").show(7), "sound": sound("sound").show(3),
            "video": video("video").show(4, compare=5),
        }  # fmt: skip
        for kind, page in made.items():
            assert not page.step.error, page.step.error
            path = Path(name, f"{kind}.html")
            page.write(str(path))
            for size, window in SIZES.items():
                browser.size(*window)
                browser.visit(path.as_uri())
                assert browser.errors() == []
                image = Image.open(io.BytesIO(browser.screenshot()))
                file = target / f"show_{kind}_{size}.webp"
                image.convert("RGB").save(file, "WEBP", quality=70, method=6)
                print(f"{file.name}: {file.stat().st_size / 1000:.0f} KB of a page of {path.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
