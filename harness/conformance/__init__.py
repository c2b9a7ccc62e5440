"""The conformance suite behind ``memrig check``: what every adapter promises, tried on it.

Ordinary use is :func:`check_baseline`; :data:`harness.conformance.suite.CHECKS` lists what it asks.
"""

from __future__ import annotations

from harness.conformance.results import CheckResult, Outcome, Report
from harness.conformance.suite import CHECKS, check_baseline

__all__ = ["CHECKS", "CheckResult", "Outcome", "Report", "check_baseline"]
