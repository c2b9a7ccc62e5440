"""The run directory: what stands in it, how it survives a kill, how two of them compare.

``directory`` holds :class:`Run`; ``attempts`` what a sample writes while it runs; ``manifest`` what
a run was made with; ``snapshots`` the chain of a sample's snapshots; ``compare`` and ``merge`` work
on finished runs.
"""

from harness.runs.attempts import Attempt
from harness.runs.compare import Difference, diff
from harness.runs.directory import Run
from harness.runs.manifest import Manifest
from harness.runs.merge import merge

__all__ = ["Attempt", "Difference", "Manifest", "Run", "diff", "merge"]
