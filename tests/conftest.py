"""What every test has: the PostgreSQL, Redis and Chromium fixtures, the requirement mark, and hypothesis' profiles."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.conformance.plugin",
    "tests.support.chromium",
    "tests.support.postgres",
    "tests.support.redis",
    "tests.flows.usecase_support",
]

# No deadline: two cores under load make any example slow once. Examples differ from run to run here and are fixed in
# CI, so that a change is never blamed for what another run would have found before it.
settings.register_profile(
    "here", deadline=None, max_examples=50, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("in-ci", settings.get_profile("here"), max_examples=100, derandomize=True, database=None)
settings.load_profile("in-ci" if os.environ.get("CI") else "here")
