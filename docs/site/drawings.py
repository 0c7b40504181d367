"""Drawings of whole pipelines, made by `Pipeline` itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HEAD = """from pathlib import Path

import asyncdali
from asyncdali import fn, pipeline_def, types

PICTURES = Path(asyncdali.__file__).parent / "data" / "pictures"
"""

PIPELINES = {
    "Classification": """
@pipeline_def(batch_size=8, num_threads=1, device_id=None)
def example():
    jpegs, labels = fn.readers.file(file_root=str(PICTURES), random_shuffle=True, name="reader")
    images = fn.decoders.image_random_crop(jpegs)
    images = fn.resize(images, size=[224, 224])
    images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), dtype=types.FLOAT)
    return images, labels
""",
    "Two views for self-supervised training": """
@pipeline_def(batch_size=8, num_threads=1, device_id=None)
def example():
    jpegs, _ = fn.readers.file(file_root=str(PICTURES), random_shuffle=True, name="reader")
    image = fn.decoders.image(jpegs)
    views = [fn.random_resized_crop(image, size=[96, 96]) for _ in range(2)]
    views = [fn.color_twist(view, hue=fn.random.uniform(range=[-20.0, 20.0])) for view in views]
    return tuple(fn.gaussian_blur(view, sigma=fn.random.uniform(range=[0.1, 2.0])) for view in views)
""",
    "Decoding and augmenting on a GPU": """
@pipeline_def(batch_size=8, num_threads=1, device_id=0)
def example():
    jpegs, labels = fn.readers.file(file_root=str(PICTURES), name="reader")
    images = fn.decoders.image(jpegs, device="mixed")
    images = fn.rotate(images, angle=fn.random.uniform(range=[-15.0, 15.0]), keep_size=True)
    images = fn.crop_mirror_normalize(images, crop=[224, 224], dtype=types.FLOAT)
    return images, labels.gpu()
""",
}
"""Title -> the pipeline."""


def page(folder: Path) -> list[str]:
    """The lines of the page of drawings. The drawings are saved to `folder`."""
    lines = ["# Pipelines", "", "How a pipeline is cut into segments that run one after another on their own thread. The method"]
    lines += ["`save_graph_to_svg_file` of a pipeline draws this.", ""]
    folder.mkdir(parents=True, exist_ok=True)
    for k, (title, text) in enumerate(PIPELINES.items()):
        names: dict[str, object] = {}
        exec(compile(HEAD + text, "<pipeline>", "exec"), names)
        pipe: Any = names["example"]()  # type: ignore[operator]
        file = f"pipeline-{k}.svg"
        pipe.save_graph_to_svg_file(folder / file)
        pipe.close()
        lines += [f"## {title}", "", "```python", (HEAD + "\n" + text).strip(), "```", ""]
        lines += [f'<img class="chart" src="../_pictures/{file}" alt="Drawing of the pipeline: {title}" loading="lazy">', ""]
    return lines
