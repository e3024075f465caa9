# SPDX-License-Identifier: Apache-2.0
"""Which optimizer ends a step, and in which steps operations are recorded: rules that need no torch."""
import gc

import pytest

from moescope.auto.budget import BEFORE, FIRST, SHARE, Budget
from moescope.auto.step_ends import StepEnds

MS = 1_000_000


class Optimizer:
    pass


def ended(order, ends=None):
    """The places in `order` at which a step ends."""
    ends, optimizers = ends or StepEnds(), {name: Optimizer() for name in order}
    return [i for i, name in enumerate(order) if ends.ends(optimizers[name])]


@pytest.mark.parametrize("order, wanted", [
    ("aaaa", [0, 1, 2, 3]),
    ("dgdgdgdg", [0, 3, 5, 7]),  # the first too early, but as many as there are turns
    ("abcabcabc", [0, 5, 8]),
    ("dddddgdddddg", [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]),
    ("dgdddddgdddd", [0, 3, 4, 5, 6, 8, 9, 10, 11]),  # one less: the rarer one came early
    ("aaaabbbb", [0, 1, 2, 3, 5, 6, 7]),  # likewise: a second training, the first optimizer kept
])
def test_turns_of_optimizers(order, wanted):
    assert ended(order) == wanted


def test_a_second_training_after_the_first_is_gone():
    ends = StepEnds()
    assert ended("aaa", ends) == [0, 1, 2]
    gc.collect()
    assert ended("bbb", ends) == [0, 1, 2]


def run(budget, steps, step_ns, longer_ns=0, between_ns=0):
    """The steps whose operations are recorded, and what share of the time they cost."""
    now, sampled, cost = 0, [], 0
    for nth in range(steps):
        if budget.wants(nth, now):
            sampled.append(nth)
            budget.sampled_step(step_ns + longer_ns, between_ns)
            now += step_ns + longer_ns + between_ns
            cost += longer_ns + between_ns
        else:
            budget.plain_step(step_ns)
            now += step_ns
    return sampled, cost / now


def test_the_price_is_paid():
    sampled, share = run(Budget(), 5000, 10 * MS, longer_ns=2 * MS, between_ns=8 * MS)
    assert sampled[0] == FIRST and len(sampled) > 10
    assert 0.8 * SHARE < share <= 1.3 * SHARE  # the slower first steps of FIRST are not known to be slower
    gaps = [b - a for a, b in zip(sampled[2:], sampled[3:])]
    assert max(gaps) - min(gaps) <= 1


def test_what_costs_little_is_recorded_often_and_what_costs_much_seldom():
    assert len(run(Budget(), 100, 1000 * MS, between_ns=MS)[0]) == 98
    assert run(Budget(), 100, 10 * MS, between_ns=1000 * MS)[0] == [FIRST]


def test_a_step_is_compared_with_those_before_it():
    budget = Budget()
    for nth in range(BEFORE):
        budget.plain_step(10 * MS)
        assert budget.wants(nth, nth * 10 * MS) == (nth >= FIRST)
    budget.sampled_step(13 * MS, 2 * MS)  # 5 ms in all, paid after 1 s; the next one another second later
    start = BEFORE * 10 * MS
    assert not budget.wants(20, start + 1500 * MS)
    assert budget.wants(20, start + 2000 * MS)
