"""benchmarks/fleet_simulation.py: results of small cases, which were computed by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import fleet_picture
from benchmarks.fleet_simulation import FAULTS, Setting, Simulation, printed, service_times, table

EVEN = np.full(10, 0.004)
"""Every sample takes 4 ms of one core: a request of 32 takes 32 ms of an actor with four."""
FREE = {"latency": 0.0, "trainer_link": 1e18, "actor_link": 1e18}


def test_one_actor_and_one_rank_by_hand():
    result = Simulation(Setting(1, 1, 64, steps=10, hedge_after=0.0, **FREE), EVEN).run()
    assert result.first == pytest.approx(0.064)
    assert result.seconds == pytest.approx(0.64)
    assert result.utilisation == pytest.approx(1.0) and result.samples_per_second == pytest.approx(1000)
    assert result.hedged == result.wasted == 0


def test_the_trainers_link_may_be_the_limit():
    setting = Setting(10, 1, 320, steps=50, hedge_after=0.0, **{**FREE, "trainer_link": 500 * 224 * 224 * 3})
    result = Simulation(setting, EVEN).run()
    assert result.links == pytest.approx(1.0, abs=0.02) and result.samples_per_second == pytest.approx(500, rel=0.02)


def test_training_may_be_the_limit():
    result = Simulation(Setting(10, 2, 64, steps=50, step=0.1, **FREE), EVEN).run()
    assert result.samples_per_second == pytest.approx(640, rel=0.02) and result.longest_gap == pytest.approx(0.1)


def test_the_same_seed_gives_the_same_run():
    setting = Setting(20, 4, 256, steps=30, stragglers=0.1, mean_life=2.0, seed=5)
    assert Simulation(setting, EVEN).run() == Simulation(setting, EVEN).run()
    assert Simulation(replace(setting, seed=6), EVEN).run() != Simulation(setting, EVEN).run()


def test_hedging_hides_slow_actors():
    setting = Setting(100, 8, 1536, steps=100, lookahead=16, stragglers=0.02)
    hedged = Simulation(setting, EVEN).run()
    alone = Simulation(replace(setting, hedge_after=0.0), EVEN).run()
    assert 0 < hedged.hedged < 0.05 and alone.hedged == 0
    assert hedged.first < alone.first and hedged.seconds < 0.7 * alone.seconds


def test_work_of_a_dead_actor_is_repeated_elsewhere():
    result = Simulation(Setting(4, 2, 128, steps=200, mean_life=1.0, restart=0.5), EVEN).run()
    assert result.samples_per_second > 0 and result.longest_gap < 2


def test_a_batch_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="a batch of 100 is no multiple of 3 ranks times 32"):
        Setting(1, 3, 100)


def test_the_table():
    rows = table(((10, 2),), EVEN, 20)
    text = printed(rows)
    assert len(rows) == len(FAULTS) and text.count("\n") == len(FAULTS) + 1
    assert len({line.count("|") for line in text.splitlines()}) == 1


def test_service_times_come_from_measurements():
    found = service_times()
    assert len(found) >= 1000 and 1e-4 < found.mean() < 1e-1


def test_the_picture_shows_the_table():
    """If this fails, run `python -m benchmarks.fleet_picture`."""
    found = fleet_picture.rows(fleet_picture.TABLE.read_text(encoding="utf-8"))
    assert ("1 % slow", 1000, 97.0) in found and len(found) == 16
    assert fleet_picture.PICTURE.read_text(encoding="utf-8") == fleet_picture.drawing(found)
    with pytest.raises(ValueError, match="no table of the fleet simulation"):
        fleet_picture.rows("| faults |")
