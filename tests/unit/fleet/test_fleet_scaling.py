"""The number of engines that trainers need, and the error without Ray."""

from __future__ import annotations

import asyncio
import importlib.util
import sys

import pytest

from asyncdali.fleet.scaling import wanted


@pytest.mark.parametrize(
    "count, waiting, busy, expected",
    [
        (2, 0.5, 1.6, 3),  # trainers wait for busy engines
        (8, 0.5, 1.6, 10),
        (16, 0.5, 1.6, 16),  # the maximum
        (4, 0.5, 0.2, 4),  # trainers wait, but not for engines
        (4, 0.03, 1.6, 4),
        (4, 0.0, 0.3, 3),  # three engines would be busy 0.4 of the time
        (4, 0.0, 0.6, 4),
        (2, 0.0, 0.0, 2),  # the minimum
    ],
)
def test_the_number_follows_what_trainers_wait_for(count, waiting, busy, expected):
    assert wanted(count, 2, 16, waiting, busy) == expected


def test_a_trainer_that_was_killed_does_not_count(monkeypatch):
    """A killed trainer cannot leave the fleet. Its last report said that it waits, which once kept all engines running."""
    pytest.importorskip("ray", reason="ray is not installed")
    from asyncdali.ray import manager

    monkeypatch.setattr(manager.Manager, "_adjust", lambda self: None)

    async def numbers():
        made = manager.Manager(1, 8, 0, {})
        made._trainers = {"killed": {}, "living": {}}
        began, found = made._decided, []
        for time, trainer, waiting, busy in ((20, "killed", 0.5, 1.0), (40, "living", 0.0, 0.1)):
            monkeypatch.setattr(manager.time, "monotonic", lambda time=time: began + time)
            await made.report(trainer, {"rank": 0, "waiting": waiting, "busy": busy})
            found.append(made._wanted)
        return found

    assert asyncio.run(numbers()) == [2, 1]


def test_without_ray_the_error_names_the_extra(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "ray" else find(name, *rest))
    for name in [name for name in sys.modules if name == "ray" or name.startswith(("ray.", "asyncdali.ray"))]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError, match=r"asyncdali.ray needs ray, which is not installed: pip install asyncdali\[ray\]"):
        import asyncdali.ray  # noqa: F401
