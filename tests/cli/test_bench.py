"""`bench` and `run` from flags to table, in virtual environments: what a bare machine does."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.bench import SAMPLE_DATA, what_this_was
from cli.main import app

ROOT = Path(__file__).resolve().parents[2]
runner = CliRunner(env={"COLUMNS": "160"})


def memrig(*words: str) -> Result:
    return runner.invoke(app, list(words))


@pytest.fixture(scope="module")
def benched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Two rows over the sample data."""
    out = tmp_path_factory.mktemp("bench") / "out"
    done = memrig(
        "bench", "--baseline", "NoMemory Oracle", "--sandbox", "venv", "--output-dir", str(out)
    )
    return out, done


def test_bench_ends_with_table_paths_and_next_commands(benched: tuple[Path, Result]) -> None:
    out, done = benched
    assert done.exit_code == 0, done.output
    for row in ("NoMemory", "Oracle"):
        assert (out / row / "aggregate_metrics.json").is_file()
        assert str(out / row) in done.stdout
    assert "keyed" in done.stdout
    assert "extractive" in done.stdout
    assert f"memrig verify {out / 'NoMemory'}" in done.stdout
    assert done.stdout.rstrip().endswith(what_this_was())


def test_bench_says_which_sandbox_and_why(benched: tuple[Path, Result]) -> None:
    _, done = benched
    said = [line for line in done.stderr.splitlines() if "runs in a venv" in line]
    assert len(said) == 1
    assert "as asked" in said[0]


def test_the_run_verifies(benched: tuple[Path, Result]) -> None:
    out, _ = benched
    for row in ("NoMemory", "Oracle"):
        verified = memrig("verify", str(out / row))
        assert verified.exit_code == 0, verified.output


def test_the_same_command_again_does_nothing_twice(benched: tuple[Path, Result]) -> None:
    out, first = benched
    again = memrig(
        "bench", "--baseline", "NoMemory Oracle", "--sandbox", "venv", "--output-dir", str(out)
    )
    assert again.exit_code == 0, again.output
    assert again.stdout == first.stdout
    assert "4 done before" in again.stderr
    assert " done (" not in again.stderr


def test_json_is_the_whole_of_stdout(tmp_path: Path) -> None:
    done = memrig(
        "bench", "--baseline", "Oracle", "--baseline", "ConstantFloor", "--smoke",
        "--output-dir", str(tmp_path / "o"), "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [row["row"] for row in found["rows"]] == ["Oracle", "ConstantFloor"]
    assert found["failed"] == {}
    assert [Path(path).name for path in found["runs"]] == ["Oracle", "ConstantFloor"]


def test_run_is_one_row_in_its_directory(tmp_path: Path) -> None:
    out = tmp_path / "mine"
    words = ["run", "--dataset", str(SAMPLE_DATA), "--baseline", "Oracle", "--output-dir", str(out)]
    done = memrig(*words, "--smoke", "--top-k", "3", "--max-eval-workers", "2")
    assert done.exit_code == 0, done.output
    assert (out / "manifest.json").is_file()
    assert what_this_was() not in done.stdout
    judged = memrig(*words, "--smoke", "--top-k", "3", "--eval-only", "--json")
    assert judged.exit_code == 0, judged.output
    assert json.loads(judged.stdout)["rows"][0]["top_k"] == 3


def test_a_run_of_other_settings_is_not_resumed_into(tmp_path: Path) -> None:
    words = ["run", "--dataset", str(SAMPLE_DATA), "--baseline", "Oracle", "--smoke"]
    out = ["--output-dir", str(tmp_path / "mine")]
    assert memrig(*words, *out).exit_code == 0
    refused = memrig(*words, *out, "--seed", "7")
    assert refused.exit_code == 1
    assert "seed" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_dry_run_shows_the_plan_and_writes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "never"
    done = memrig("bench", "--dry-run", "--samples", "en_tessa,zh_xu", "--output-dir", str(out))
    assert done.exit_code == 0, done.output
    assert "2 samples: en_tessa, zh_xu" in done.stdout
    for row in ("NoMemory", "FullContext", "BM25", "Oracle", "ConstantFloor"):
        assert f"{row}: " in done.stdout
    assert not out.exists()


def test_names_options_and_data_are_settled_before_anything_runs() -> None:
    """Case is forgiven, an option goes where it belongs, and the judge is known; all of it said."""
    words = ["bench", "--dry-run", "--dataset", "memrig-sample", "--baseline", "bm25 oracle LOSSY"]
    done = memrig(*words, "--option", "k1=1.25")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert "bm25 is read as BM25" in lines
    assert "--option k1 goes to BM25; not to Oracle, Lossy" in lines
    assert "  option k1: 1.25" in lines
    assert any(line.startswith("Lossy: it understands only memrig's drawn data") for line in lines)
    judged = "judge: keyed, because 131 of 131 gold points and 40 of 40 questions carry keys"
    assert judged in lines


def test_data_without_keys_are_announced_as_such(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE_DATA, tmp_path / "bare")
    path = tmp_path / "bare" / "stage4b_qa_checkpoints.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        for checkpoint in row["checkpoints"]:
            for question in checkpoint["questions"]:
                question.pop("keys", None)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = memrig("bench", "--dry-run", "--dataset", str(tmp_path / "bare"))
    assert done.exit_code == 0, done.output
    said = next(line for line in done.stdout.splitlines() if line.startswith("judge: "))
    assert said.startswith("judge: gold_found, because 131 of 131 gold points and 0 of 40")
    assert "all six dimensions will be N/A" in said


FAILS_SOMETIMES = """\
from harness.adapter.contract import MemoryAdapter
from harness.adapter.records import RetrievalRecord

class Adapter(MemoryAdapter):
    def reset(self): pass
    def ingest_turn(self, turn): pass
    def end_session(self, session_id): pass
    def snapshot_memories(self): return []
    def retrieve(self, query, top_k):
        if "e" in query.text.split()[0]:
            raise ValueError("no index")
        return RetrievalRecord(())
    def get_capabilities(self): return {}
"""


def test_failed_units_end_the_report_with_why(tmp_path: Path) -> None:
    systems = broken_system(tmp_path / "systems", "Crashy", FAILS_SOMETIMES, "")
    out = tmp_path / "out"
    done = memrig(
        "bench", "--baseline", "Crashy NoMemory", "--baselines", str(systems), "--smoke",
        "--sandbox", "venv", "--output-dir", str(out),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    told = re.search(
        r"Crashy: (\d+) of 16 units failed \(BASELINE_ERROR \1\); why: (.*)", done.stdout
    )
    assert told is not None, done.stdout
    assert told[2] == f"memrig explain {out / 'Crashy'} qa"
    assert f"is what it is:   memrig explain {out / 'Crashy'} qa" in done.stdout
    assert memrig(*shlex.split(told[2])[1:]).exit_code == 0
    shown = memrig("show", str(out / "Crashy"))
    assert "BASELINE_ERROR during retrieve: ValueError: no index" in shown.stdout
    log = re.search(r"log: (\S+)", shown.stdout)
    assert log is not None
    assert "ValueError: no index" in Path(log[1]).read_text(encoding="utf-8")
    assert "Traceback" in Path(log[1]).read_text(encoding="utf-8")


BROKEN_ADAPTER = "raise RuntimeError('this system cannot even be imported')\n"
BROKEN_YAML = """\
name: {name}
summary: A system that does not work.
adapter: adapter:Adapter
version: "1"
licence: Apache-2.0
update_semantics: append
limits: {{memory_mb: 256, pids: 32, disk_mb: 16, start_s: 60, call_s: 60}}
"""


def broken_system(folder: Path, name: str, adapter: str, lock: str) -> Path:
    folder = folder / name
    folder.mkdir(parents=True)
    (folder / "baseline.yaml").write_text(BROKEN_YAML.format(name=name), encoding="utf-8")
    (folder / "adapter.py").write_text(adapter, encoding="utf-8")
    (folder / "requirements.lock").write_text(lock, encoding="utf-8")
    return folder.parent


def test_a_row_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    systems = broken_system(tmp_path / "systems", "Crashes", BROKEN_ADAPTER, "")
    out = tmp_path / "out"
    done = memrig(
        "bench", "--baseline", "Crashes Oracle", "--baselines", str(systems), "--smoke",
        "--max-sessions", "1", "--sandbox", "venv", "--output-dir", str(out),
    )  # fmt: skip
    assert done.exit_code == 1, done.output
    assert "memrig: Crashes failed: not one session or question worked" in done.stderr
    assert str(out / "Crashes" / "logs") in done.stderr
    assert "Traceback" not in done.stderr
    assert "Oracle" in done.stdout
    assert (out / "Oracle" / "aggregate_metrics.json").is_file()


def test_a_system_that_cannot_be_built_names_its_log(tmp_path: Path) -> None:
    lock = f"no-such-wheel==1.0 --hash=sha256:{'0' * 64}\n"
    systems = broken_system(tmp_path / "systems", "Unbuildable", BROKEN_ADAPTER, lock)
    empty = tmp_path / "empty"
    empty.mkdir()
    done = memrig(
        "bench", "--baseline", "Unbuildable Oracle", "--baselines", str(systems), "--smoke",
        "--sandbox", "venv", "--output-dir", str(tmp_path / "out"),
        "--package-index", empty.as_uri(),
    )  # fmt: skip
    assert done.exit_code == 1, done.output
    assert "memrig: Unbuildable failed" in done.stderr
    log = next(line for line in done.stderr.splitlines() if line.strip().startswith("log:"))
    assert Path(log.split("log:")[1].strip()).is_file()
    assert "Oracle" in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["bench", "--dataset", "no/such/folder"], "there is no such folder"),
        (["bench", "--baseline", "Orcale"], "Did you mean Oracle"),
        (["bench", "--baseline", "Oracle", "--shard", "3/2"], "from 1 to 2"),
        (["bench", "--baseline", "Oracle", "--shard", "x"], "1/4"),
        (["bench", "--baseline", "NoMemory", "--option", "depth"], "KEY=VALUE"),
        (["bench", "--baseline", "BM25", "--option", "k2=1"], "unknown option of BM25 'k2'"),
        (["bench", "--baseline", "NoMemory Oracle", "--option", "a=1"], "'a'. There are none."),
        (["bench", "--baseline", "mem0"], "Mem0: needs a language model"),
        (["bench", "--baseline", "LTMemory"], "MemEngine-LTMemory"),
        (["bench", "--baseline", ""], "names no system"),
        (["run", "--dataset", "sample", "--baseline", ""], "unknown baseline ''"),
        (["bench", "--baseline", "Oracle", "--samples", "en_tesa"], "Did you mean en_tessa"),
        (["bench", "--baselines", "no/such"], "no such folder"),
        (["bench", "--eval-only"], "needs --output-dir"),
        (["bench", "--jobs", "0"], "--jobs"),
        (["run", "--baseline", "BM25"], "--dataset"),
        (["bench", "--package-index", "https://me:secret@pypi.example/simple"], "credentials"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_usage_is_one_message_and_exit_code_2(words: list[str], says: str) -> None:
    refused = memrig(*words)
    assert refused.exit_code == 2, refused.output
    assert says in refused.output
    assert "Traceback" not in refused.output
    assert "secret" not in refused.output


def test_a_malformed_bundle_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    for name in ("domain_a_v2.json", "stage4_memory_points.jsonl", "stage4b_qa_checkpoints.jsonl"):
        (tmp_path / name).write_text((SAMPLE_DATA / name).read_text(encoding="utf-8"), "utf-8")
    (tmp_path / "domain_a_v2.json").write_text('[{"sample_id": NaN}]', encoding="utf-8")
    refused = memrig("bench", "--dataset", str(tmp_path))
    assert refused.exit_code == 2, refused.output
    assert "domain_a_v2.json:1" in refused.stderr
    assert "runs in" not in refused.stderr


def test_an_interrupted_bench_says_how_to_go_on_and_does(tmp_path: Path) -> None:
    """Ctrl-C: exit code 130, the command that resumes, and that command finishes the work."""
    out = tmp_path / "out"
    words = [
        "bench", "--baseline", "Sleeper", "--baselines", str(ROOT / "perf" / "boxes"),
        "--max-sessions", "1", "--samples", "en_tessa,zh_xu", "--sandbox", "venv",
        "--output-dir", str(out),
    ]  # fmt: skip
    argv = [sys.executable, "-m", "cli.main", *words]
    process = subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "en_tessa done" in line:
            break
    process.send_signal(signal.SIGINT)
    printed, rest = process.communicate(timeout=60)
    assert process.returncode == 130, said + rest
    assert "Traceback" not in rest
    assert "what was recorded is kept" in rest
    resume = rest.strip().splitlines()[-1].strip()
    assert shlex.split(resume) == ["memrig", *words]
    assert printed == ""
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 done before" in done.stderr
    assert "zh_xu done" in done.stderr
    assert "en_tessa done" not in done.stderr


def test_a_full_disk_is_one_message(tmp_path: Path) -> None:
    """A run that may write no more (a limit on the size of files) says so and can be resumed."""
    out = tmp_path / "out"
    program = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
        "from cli.main import main\n"
        f"sys.argv = {['memrig', 'bench', '--baseline', 'Oracle', '--output-dir', str(out)]!r}\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "What was recorded is kept" in done.stderr
    assert str(out) in done.stderr
    again = memrig("bench", "--baseline", "Oracle", "--output-dir", str(out))
    assert again.exit_code == 0, again.output
