"""Which implementations a test is for."""

import pytest

from .adapter import EDITIONS


def ask(request, impl, edition=None):
    """Skip the test where its edition is not claimed by the implementation, or not asked for.

    Args:
        request: of a fixture.
        impl: the implementation.
        edition: by default "beyond" for a test whose name says so, else "2.2".
    """
    if edition is None:
        edition = "beyond" if "test_beyond" in request.node.name else "2.2"
    asked = request.config.getoption("--edition") or EDITIONS
    if edition not in asked or not EDITIONS[edition] <= impl.capabilities:
        pytest.skip("%s: edition %s is not claimed or not asked for" % (impl.name, edition))
