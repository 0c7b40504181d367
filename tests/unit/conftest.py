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


@pytest.fixture
def waits(monkeypatch):
    """Nobody waits before a remote read is tried again: the seconds that would have been waited."""
    from asyncdali.readers.remote import remote

    waited = []
    monkeypatch.setattr(remote.retries, "sleep", waited.append)
    return waited
