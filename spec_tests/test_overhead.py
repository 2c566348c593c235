"""A step makes no more calls beyond the hand-written loop than the goals allow."""

import subprocess
import sys

import pytest

from . import overhead
from .adapter import EDITIONS


def test_beyond_calls_per_step(impl):
    """The counts are exact; ``make bench`` prints them with the times."""
    if not EDITIONS["beyond"] <= impl.capabilities:
        pytest.skip("%s does not claim what is beyond edition 2.2" % impl.name)
    run = subprocess.run(
        [sys.executable, overhead.__file__, "--calls", "--impl", impl.name],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    assert run.returncode == 0, run.stdout
    assert run.stdout.count("≤") == sum(row.goal is not None for row in overhead.CALLS)


@pytest.mark.parametrize("by_hand, ours, holds", [
    (194, 245, True), (194, 246, False),
    (190, 241, True), (190, 242, False),  # another torch: the goal moves with the loop
])
def test_a_goal_of_calls_holds_or_is_missed(by_hand, ours, holds):
    row = overhead.Row("train", "calls", goal=245, by_hand=194)
    (line,) = overhead.summary([(row, {overhead.HAND: [by_hand], "it": [ours]})], "it")
    assert line["holds"] is holds
    assert line["ratios"]["it"] == ours / by_hand


def test_a_goal_of_time_is_the_median_of_the_ratios_of_each_round():
    row = overhead.Row("train", "step_time", goal=1.12)
    by_hand, ours = [100, 200, 300], [110, 300, 330]  # 1.1, 1.5 and 1.1 times
    (line,) = overhead.summary([(row, {overhead.HAND: by_hand, "it": ours})], "it")
    assert (line["values"]["it"], line["ratios"]["it"], line["holds"]) == (300, 1.1, True)


def test_a_row_beyond_another_is_what_it_adds():
    first = overhead.Row("train", "calls")
    more = overhead.Row("one more", "calls", goal=3, beyond="train")
    counts = {overhead.HAND: [194], "it": [244]}, {overhead.HAND: [195], "it": [248]}
    line = overhead.summary(list(zip((first, more), counts)), "it")[1]
    assert (line["values"], line["holds"]) == ({overhead.HAND: 1, "it": 4}, False)
