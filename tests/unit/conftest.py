"""Fixtures of the unit tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def cuda(monkeypatch):
    """The CUDA simulator in place of the machine's CUDA."""
    from helpers.cuda import StandIn, use

    driver = StandIn()
    use(driver, monkeypatch)
    return driver


@pytest.fixture
def waits(monkeypatch):
    """Remote reads are repeated without a wait. Returns a list of the waits, in seconds, that were left out."""
    from asyncdali.readers.remote import remote

    waited = []
    monkeypatch.setattr(remote.retries, "sleep", waited.append)
    return waited
