"""Draws the pictures that ship with the package (asyncdali/data/pictures). They are our own and in the public domain (CC0).

    python examples/make_demo_pictures.py asyncdali/data/pictures
"""

from __future__ import annotations

import math
import os
import sys

import cv2
import numpy as np

SIZE = (300, 400)
CLASSES = ("0_circles", "1_stripes", "2_squares", "3_rings", "4_waves", "5_stars", "6_spirals", "7_hills")


def background(random: np.random.Generator) -> np.ndarray:
    """A soft gradient between two colours, with some noise."""
    h, w = SIZE
    angle = random.uniform(0, 2 * math.pi)
    y, x = np.mgrid[0:h, 0:w]
    t = (x * math.cos(angle) + y * math.sin(angle)) / 250
    t = 0.5 + 0.5 * np.sin(t + random.uniform(0, 6))
    a, b = random.uniform(40, 220, 3), random.uniform(40, 220, 3)
    return np.asarray(a + t[:, :, None] * (b - a) + random.normal(0, 3, (h, w, 1)))


def colour(random: np.random.Generator) -> tuple[float, float, float]:
    red, green, blue = random.uniform(0, 255, 3)
    return float(red), float(green), float(blue)


def draw(kind: int, image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    h, w = SIZE
    for _ in range(int(random.integers(3, 8))):
        x, y, r = int(random.integers(0, w)), int(random.integers(0, h)), int(random.integers(20, 80))
        c = colour(random)
        if kind == 0:
            cv2.circle(image, (x, y), r, c, -1, cv2.LINE_AA)
        elif kind == 1:
            d = int(random.integers(-200, 200))
            cv2.line(image, (x - d, 0), (x + d, h), c, r // 3, cv2.LINE_AA)
        elif kind == 2:
            box = cv2.boxPoints(((x, y), (r * 1.6, r * 1.2), float(random.uniform(0, 90)))).astype(np.int32)
            cv2.fillPoly(image, [box], c, cv2.LINE_AA)
        elif kind == 3:
            cv2.circle(image, (x, y), r, c, r // 4 + 2, cv2.LINE_AA)
        elif kind == 4:
            xs = np.arange(0, w, 4)
            ys = y + r / 2 * np.sin(xs / (10 + r / 4))
            cv2.polylines(image, [np.stack([xs, ys], 1).astype(np.int32)], False, c, r // 6 + 2, cv2.LINE_AA)
        elif kind == 5:
            turn = random.uniform(0, 6)
            corners = [(x + (r if k % 2 == 0 else r * 0.45) * math.cos(turn + k * math.pi / 5),
                        y + (r if k % 2 == 0 else r * 0.45) * math.sin(turn + k * math.pi / 5)) for k in range(10)]  # fmt: skip
            cv2.fillPoly(image, [np.array(corners, np.int32)], c, cv2.LINE_AA)
        elif kind == 6:
            t = np.linspace(0, 6 * math.pi, 200)
            points = np.stack([x + r * t / 12 * np.cos(t), y + r * t / 12 * np.sin(t)], 1).astype(np.int32)
            cv2.polylines(image, [points], False, c, 5, cv2.LINE_AA)
        else:
            xs = np.arange(0, w + 8, 8)
            top = y + r * np.sin(xs / 60 + random.uniform(0, 6)) / 2
            points = np.concatenate([np.stack([xs, top], 1), [[w, h], [0, h]]]).astype(np.int32)
            cv2.fillPoly(image, [points], c, cv2.LINE_AA)
    return image


def main() -> None:
    target = sys.argv[1]
    random = np.random.default_rng(20)
    for kind, name in enumerate(CLASSES):
        os.makedirs(os.path.join(target, name), exist_ok=True)
        for number in range(8):
            picture = np.ascontiguousarray(np.clip(draw(kind, background(random), random), 0, 255).astype(np.uint8))
            cv2.imwrite(os.path.join(target, name, f"{number}.jpg"), picture, [cv2.IMWRITE_JPEG_QUALITY, 82])


if __name__ == "__main__":
    main()
