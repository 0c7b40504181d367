"""Lists, indices and annotations that Windows programs wrote: a byte-order mark in front, CRLF at the ends of lines."""

from __future__ import annotations

import pytest
from helpers.readers import EVERY_KIND, delivered, pipeline
from helpers.text_files import TEXTS, write_texts

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_text_files_of_windows(tmp_path, name):
    kind = EVERY_KIND[name]
    arguments, texts = write_texts(name, tmp_path)
    plain = delivered(kind, pipeline(kind, arguments), 3)
    assert plain[0] == [0, 1, 2, 3]
    for path in texts:
        path.write_bytes(MARK + path.read_bytes().replace(b"\n", b"\r\n"))
    assert delivered(kind, pipeline(kind, arguments), 3) == plain


@pytest.mark.parametrize("name", sorted(set(TEXTS) - {"coco", "nemo_asr"}))
def test_other_encodings_are_named(tmp_path, name):
    kind = EVERY_KIND[name]
    arguments, texts = write_texts(name, tmp_path)
    texts[0].write_bytes(texts[0].read_bytes().decode().encode("utf-16"))
    with pytest.raises(RuntimeError, match=r"is encoded as UTF-16 or UTF-32; save it as UTF-8") as caught:
        pipeline(kind, arguments)
    assert texts[0].name in str(caught.value)
