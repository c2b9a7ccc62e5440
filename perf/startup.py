"""What it costs to ask the command for help, and to build what is built already."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from perf.measure import Measure

ROUNDS = 15
ROOT = Path(__file__).resolve().parent.parent

BARE_APP = '''
import typer
app = typer.Typer(add_completion=False)
@app.command()
def first() -> None:
    """The first verb."""
@app.command()
def second() -> None:
    """The second verb."""
app()
'''

MEMRIG = "from cli.main import main\nmain()\n"


def seconds(argv: Sequence[str]) -> float:
    """How long a command takes that must succeed."""
    start = time.perf_counter()
    subprocess.run(argv, cwd=ROOT, check=True, capture_output=True)
    return time.perf_counter() - start


def help_page() -> list[Measure]:
    """`memrig --help` against a bare Typer app's, in turns, as medians."""
    with tempfile.TemporaryDirectory() as folder:
        bare, ours = Path(folder) / "bare.py", Path(folder) / "ours.py"
        bare.write_text(BARE_APP, encoding="utf-8")
        ours.write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{MEMRIG}", "utf-8")
        times: dict[Path, list[float]] = {bare: [], ours: []}
        for script in [bare, ours] * ROUNDS:
            times[script].append(seconds([sys.executable, str(script), "--help"]))
    base, own = median(times[bare][1:]), median(times[ours][1:])
    note = f"{own * 1000:.0f} ms against {base * 1000:.0f} ms"
    return [Measure("memrig --help, against a bare Typer app", own / base, 1.3, "x", note=note)]


def unchanged_build() -> list[Measure]:
    """`memrig build` of a system that is built already."""
    argv = [sys.executable, "-m", "cli.main", "build", "BM25"]
    seconds(argv)
    took = median(seconds(argv) for _ in range(3))
    return [Measure("memrig build of an unchanged system", took, 2.0, "s")]
