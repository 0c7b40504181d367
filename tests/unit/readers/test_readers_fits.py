"""experimental.readers.fits: files of astropy, handwritten files, and damaged files."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from helpers.containers import fits
from helpers.places import TESTS

from asyncdali import Pipeline, fn, types

FOREIGN = TESTS / "helpers/reader_files/astropy.fits"


def reader(batch=1, **arguments):
    pipe = Pipeline(batch_size=batch, num_threads=2, seed=1)
    with pipe:
        made = fn.experimental.readers.fits(name="R", **arguments)
        pipe.set_outputs(*(made if isinstance(made, list) else [made]))
    pipe.build()
    return pipe


def equal(found, wanted):
    found = np.asarray(found)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)


def test_a_file_of_astropy():
    """A stored file of astropy can be read without astropy."""
    equal(reader(files=[str(FOREIGN)], hdu_indices=[1]).run()[0][0], np.array([[0, 1, 32768], [65533, 65534, 65535]], np.uint16))


@pytest.mark.parametrize("kind", ["u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"])
def test_files_of_astropy(tmp_path, kind):
    """astropy 8.0 writes all integer types. For types that FITS lacks, astropy uses an offset (BZERO)."""
    astropy = pytest.importorskip("astropy.io.fits")
    rng = np.random.default_rng(2)
    images = [(rng.random(shape) * 300).astype(kind) for shape in ((3, 4), (5, 2, 7), (1,))]
    units = [astropy.PrimaryHDU(images[0]), *(astropy.ImageHDU(image, name="N") for image in images[1:])]
    astropy.HDUList(units).writeto(tmp_path / "a.fits")
    outputs = reader(file_root=str(tmp_path), hdu_indices=[1, 3, 2]).run()
    for output, k in zip(outputs, (0, 2, 1), strict=True):
        equal(output[0], images[k])
    assert outputs[0][0].source_info() == "./a.fits"


def test_scaled_images_and_types(tmp_path):
    image = np.arange(6, dtype=np.int16).reshape(2, 3)
    (tmp_path / "a.fits").write_bytes(fits(None, image, BSCALE=0.5, BZERO=10))
    (tmp_path / "b.fits").write_bytes(fits(None, image))
    scaled = reader(files=[str(tmp_path / "a.fits")]).run()[0]
    equal(scaled[0], (image * 0.5 + 10).astype(np.float32))
    equal(reader(files=[str(tmp_path / "b.fits")], dtypes=[types.UINT8]).run()[0][0], image.astype(np.uint8))
    with pytest.raises(RuntimeError, match=r"Inconsistent data: .*a.fits has 2-D float32, .*b.fits has 2-D int16"):
        reader(2, file_root=str(tmp_path)).run()
    cases = [({"dtypes": [types.UINT8, types.UINT8]}, "does not match"), ({"hdu_indices": [0]}, "from 1"), ({"hdu_indices": []}, "from 1")]
    for arguments, message in cases:
        with pytest.raises(RuntimeError, match=message):
            reader(file_root=str(tmp_path), **arguments)


SCALINGS = [{"BSCALE": "0.5", "BZERO": "1.0"}, {"BZERO": "10"}, {"BSCALE": "2.5D-1"}, {"BSCALE": "2", "BZERO": "32768"}]


@pytest.mark.parametrize("kind, blank", [("u1", 255), ("i2", -1), ("i2", -(2**15)), ("i4", -7), ("i8", -(2**62))])
@pytest.mark.parametrize("scaling", SCALINGS, ids=str)
def test_undefined_pixels_are_nan(tmp_path, kind, blank, scaling):
    """As astropy reads them."""
    astropy = pytest.importorskip("astropy.io.fits")
    image = np.arange(12).reshape(3, 4).astype(kind)
    image[0, 1] = image[2, 3] = blank
    (tmp_path / "a.fits").write_bytes(fits(None, image, **scaling, BLANK=blank))
    found, wanted = np.asarray(reader(file_root=str(tmp_path)).run()[0][0]), astropy.getdata(tmp_path / "a.fits", 1)
    assert found.dtype == wanted.dtype and np.argwhere(np.isnan(found)).tolist() == [[0, 1], [2, 3]]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_undefined_pixels_of_other_images(tmp_path):
    """Integers that are not scaled cannot be NaN; the keyword has no meaning for floats, whose undefined pixels are NaN already."""
    image = np.array([[-1, 2], [3, -32768]], np.int16)
    (tmp_path / "a.fits").write_bytes(fits(None, image, BLANK=-1))
    equal(reader(file_root=str(tmp_path)).run()[0][0], image)
    (tmp_path / "a.fits").write_bytes(fits(None, image, BLANK=-32768, BZERO=32768))
    equal(reader(file_root=str(tmp_path)).run()[0][0], (image.astype(np.int32) + 32768).astype(np.uint16))
    (tmp_path / "a.fits").write_bytes(fits(None, image.astype(np.float32), BLANK=-1, BSCALE=0.5))
    equal(reader(file_root=str(tmp_path)).run()[0][0], (image * 0.5).astype(np.float32))
    (tmp_path / "a.fits").write_bytes(fits(None, image, BLANK=-1.5, BSCALE=0.5))
    with pytest.raises(RuntimeError, match=r"a.fits, unit 2: BLANK is not an integer"):
        reader(file_root=str(tmp_path)).run()


def test_for_a_gpu(tmp_path, monkeypatch):
    """With device="gpu" the CPU reads the data, and it is uploaded. Name and position of the reader do not change."""
    monkeypatch.setenv("ASYNCDALI_DEVICE", "host")
    for k in range(5):
        (tmp_path / f"{k}.fits").write_bytes(fits(None, np.arange(6 + k, dtype=np.int16), np.full((2, k + 1), k, np.float32)))

    def run(device):
        pipe = Pipeline(batch_size=2, num_threads=2, seed=1, device_id=0)
        with pipe:
            made = fn.experimental.readers.fits(
                name="R", device=device, file_root=str(tmp_path), hdu_indices=[2, 3], random_shuffle=True, dtypes=[types.INT32, types.FLOAT]
            )
            pipe.set_outputs(*made)
        pipe.build()
        assert pipe.reader_meta("R")["epoch_size"] == 5
        return [output for _ in range(3) for output in pipe.run()]

    for a, b in zip(run("cpu"), run("gpu"), strict=True):
        assert type(b).__name__ == "TensorListGPU"
        for x, y in zip(a, b.as_cpu(), strict=True):
            equal(y, np.asarray(x))


def test_tables_and_damage(tmp_path):
    image = np.arange(6, dtype=np.int16).reshape(2, 3)
    good = fits(None, image)
    table = good.replace(b"'IMAGE   '", b"'BINTABLE'")
    cases = [
        (good[:5000], "unit 2: the file ends within a header"), (good[: 2 * 2880 + 3], "unit 2: the file ends within the data"),
        (b"", "0 units"),
        (table, "not an image, but BINTABLE"), (fits(None), "only 1 units"), (fits(None, None), "the unit has no data"),
        (b"x" * 9000, "unit 1"),
        (good.replace(b"NAXIS1  =                    3", b"NAXIS1  =  9007199254740991000"), "declared|not an integer"),
        (good.replace(b"NAXIS1  =                    3", b"NAXIS1  =                   -3"), "negative"),
        (good.replace(b"BITPIX  =                   16", b"BITPIX  =                   17"), "BITPIX is 17"),
        (good.replace(b"NAXIS   =                    2", b"NAXIS   =                  999"), "NAXIS is 999"),
        (good.replace(b"NAXIS   =                    2", b"NAXIS   =                    3"), "no NAXIS3"),
        (good.replace(b"END", b"XXX"), "the file ends within a header"),
        (fits(None, image, BSCALE="1E999"), "unit 2: BSCALE is not a finite number, but 1E999"),
        (fits(None, image, BZERO="1.2.3"), "unit 2: BZERO is not a finite number, but 1.2.3"),
        (good.replace(b"NAXIS1  =                    3", b"NAXIS1  =                1E999"), "NAXIS1 is not a finite number"),
        (fits(None, image, GCOUNT=0), r"groups or parameters \(GCOUNT is 0, PCOUNT is 0\)"),
        (gzip.compress(good), r"unit 1: .*; the file is compressed \(gzip\): unpack it"),
    ]  # fmt: skip
    for k, (data, _) in enumerate(cases):
        (tmp_path / f"{k:02d}.fits").write_bytes(data)
    pipe = reader(file_root=str(tmp_path))
    for k, (_, message) in enumerate(cases):
        with pytest.raises(RuntimeError, match=message) as caught:
            pipe.run()
        assert f"{tmp_path}/./{k:02d}.fits" in str(caught.value)
