"""Imports everything that is attacked, once: workers are forked from the process that did."""

from tests.attack.attack import found

found()
