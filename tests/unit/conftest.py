"""What unit tests share."""

from __future__ import annotations

import pytest


@pytest.fixture
def cuda(monkeypatch):
    """The stand-in for CUDA, as the machine's own."""
    from helpers.cuda import StandIn, use

    driver = StandIn()
    use(driver, monkeypatch)
    return driver
