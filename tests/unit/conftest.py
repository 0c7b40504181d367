"""Fixtures of the unit tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def cuda(monkeypatch):
    """The CUDA simulator, as the machine's own CUDA."""
    from helpers.cuda import StandIn, use

    driver = StandIn()
    use(driver, monkeypatch)
    return driver


@pytest.fixture
def waits(monkeypatch):
    """No waiting before a remote read is repeated. Gives the seconds that would have been waited."""
    from asyncdali.readers.remote import remote

    waited = []
    monkeypatch.setattr(remote.retries, "sleep", waited.append)
    return waited
