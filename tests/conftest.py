"""Settings for all tests."""

import os

from hypothesis import settings

# Practice nodes and other tests share the machine: a slow example is no failure. In CI the examples
# are the same each time, so that a change is judged by what it changed.
settings.register_profile("hfprov", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("hfprov")
