"""Every scenario, replayed on the implementation, equals its fact: events, results, state."""

import pytest

from . import scenarios, verdict


def test_scenario(impl, fact):
    """Play the scenario and compare it with the fact."""
    different = verdict.differences(fact, scenarios.play(impl, fact.name))
    if different:
        pytest.fail(different, pytrace=False)
