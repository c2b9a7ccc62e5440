"""``memrig.toml`` and ``.env``: profiles, roles, the seed's names, the fallback that is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.models.dotenv import Secrets, load_variables, read_dotenv
from harness.models.profiles import OPENROUTER_URL, PROFILES, openrouter_name
from harness.models.routes import RoleModel, Setup
from harness.models.setup import load_setup
from harness.outcomes import DataError, UnknownName, UsageError

SEED_ENV = """\
# .env
OPENAI_API_KEY=sk-seed-0123456789
OPENAI_BASE_URL=https://api.openai.com/v1   # or one that is compatible
OPENAI_MODEL=gpt-4o

export OPENAI_TEMPERATURE=0.0
OPENAI_MAX_TOKENS="1024"
OPENAI_TIMEOUT=120
JUDGE_TEMPERATURE='0.3'
LLM_MAX_CONCURRENT=7
"""


def load(tmp_path: Path, profile: str, dotenv: str = "", toml: str = "", **env: str) -> Setup:
    (tmp_path / ".env").write_text(dotenv)
    (tmp_path / "memrig.toml").write_text(toml)
    return load_setup(profile, tmp_path, env=env)[0]


def test_the_seeds_names(tmp_path: Path) -> None:
    setup = load(tmp_path, "openai", SEED_ENV)
    route = setup.routes["openai"]
    assert route.base_url == "https://api.openai.com/v1"
    assert (route.concurrency, route.timeout_s, route.paid) == (7, 120.0, True)
    assert str(setup.role("answer")) == "openai:gpt-4o"
    assert setup.role("answer").settings == {"temperature": 0.0, "max_tokens": 1024}
    assert setup.role("judge").settings == {"temperature": 0.3, "max_tokens": 1024}
    assert setup.role("system").settings == {}, "the system's own decoding is its own"
    assert setup.key_of(route) == "sk-seed-0123456789"
    assert setup.notes == ()
    assert "sk-seed" not in f"{setup} {setup.manifest()}"
    assert (
        "OPENAI_API_KEY" not in os.environ or os.environ["OPENAI_API_KEY"] != "sk-seed-0123456789"
    )


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    setup = load(tmp_path, "openai", SEED_ENV, OPENAI_MODEL="gpt-4.1", OPENAI_TIMEOUT="")
    assert str(setup.role("answer")) == "openai:gpt-4.1"
    assert setup.routes["openai"].timeout_s == 120.0, "an empty value is not given"


def test_judge_forms(tmp_path: Path) -> None:
    more = (
        "OPENAI_API_KEY_JUDGE=sk-judge-0123456789\nOPENAI_BASE_URL_JUDGE=https://judge.example/v1\n"
        "OPENAI_MODEL_JUDGE=big\nOPENAI_MAX_TOKENS_JUDGE=99\nOPENAI_TIMEOUT_JUDGE=300\n"
        "OPENAI_TEMPERATURE_JUDGE=0.9\nLLM_MAX_CONCURRENT_JUDGE=2\n"
    )
    setup = load(tmp_path, "openai", SEED_ENV + more)
    assert str(setup.role("judge")) == "judge:big"
    judge = setup.routes["judge"]
    assert (judge.base_url, judge.timeout_s, judge.concurrency) == (
        "https://judge.example/v1",
        300,
        2,
    )
    assert setup.key_of(judge) == "sk-judge-0123456789"
    assert setup.role("judge").settings == {"temperature": 0.3, "max_tokens": 99}
    assert str(setup.role("answer")) == "openai:gpt-4o"
    assert setup.secrets.secret_values() == ["sk-seed-0123456789", "sk-judge-0123456789"]


def test_openrouter_takes_over_and_says_so(tmp_path: Path) -> None:
    dotenv = "OPENROUTER_API_KEY=or-0123456789\nOPENAI_MODEL=gpt-4o\nOPENAI_MODEL_JUDGE=claude-x\n"
    setup = load(tmp_path, "openai", dotenv)
    assert setup.routes["openrouter"].base_url == OPENROUTER_URL
    assert str(setup.role("answer")) == "openrouter:openai/gpt-4o"
    assert str(setup.role("judge")) == "openrouter:anthropic/claude-x"
    assert setup.routes["openrouter"].model_for("gpt-4o") == "openai/gpt-4o"
    assert setup.key_of(setup.routes["openrouter"]) == "or-0123456789"
    (note,) = setup.notes
    assert "OpenRouter" in note
    assert "gpt-4o as openai/gpt-4o" in note
    assert "\n" not in note
    own = load(tmp_path, "openai", dotenv + "OPENAI_API_KEY=sk-own-0123456789\n")
    assert own.notes == ()
    assert str(own.role("answer")) == "openai:gpt-4o"


def test_model_mapping() -> None:
    assert openrouter_name("o3-mini") == "openai/o3-mini"
    assert openrouter_name("Qwen3-8B") == "qwen/Qwen3-8B"
    assert openrouter_name("house/own") == "house/own"
    assert openrouter_name("never-heard-of") == "never-heard-of"


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "azure"])
def test_every_profile_loads_without_a_key(profile: str, tmp_path: Path) -> None:
    setup = load(tmp_path, profile)
    assert setup.profile == profile
    assert all(role.route in setup.routes for role in setup.roles.values())
    if profile in ("vllm", "ollama", "embedded"):
        assert not setup.paid
        assert "127.0.0.1" in setup.routes[profile].base_url
    if profile == "embedded":
        route = setup.routes["embedded"]
        assert route.concurrency == 1
        assert route.force == {"cache_prompt": False}
        assert "judge" not in setup.roles, "the embedded model never judges"


def test_azure(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="AZURE_OPENAI_ENDPOINT"):
        load(tmp_path, "azure")
    setup = load(
        tmp_path,
        "azure",
        AZURE_OPENAI_ENDPOINT="https://house.openai.azure.com/",
        AZURE_OPENAI_API_KEY="az-0123456789",
        OPENAI_MODEL="gpt-4o",
    )
    route = setup.routes["azure"]
    assert route.base_url == "https://house.openai.azure.com/openai/v1"
    assert (route.auth.header, route.auth.prefix) == ("api-key", "")


TOML = """
[build]
base_image = "x"

[models]
prices = "prices.yaml"

[models.routes.openai]
max_tokens = 2048
aliases = { "gpt-4o*" = "gpt-4.1-mini" }

[models.routes.house]
base_url = "https://llm.example.org/v1/"
key = "HOUSE_KEY"
models = ["house-*"]
headers = { "x-team" = "memory" }

[models.routes.zep]
kind = "vendor"
base_url = "https://zep.example/api/v2"
key = "ZEP_API_KEY"
key_prefix = "Api-Key "
paths = ["/sessions/{id}/memory"]
fields = { "/sessions/{id}/memory" = ["messages"] }

[profiles.mine]
base = "openai"
system = "openai:gpt-4.1-mini"
embed = "openai:text-embedding-3-small"
judge = "house:house-large"
[profiles.mine.settings.judge]
temperature = 0.0
"""


def test_memrig_toml(tmp_path: Path) -> None:
    setup = load(tmp_path, "mine", SEED_ENV, TOML, HOUSE_KEY="hk-0123456789")
    assert str(setup.role("judge")) == "house:house-large"
    assert setup.role("judge").settings["temperature"] == 0.0
    assert str(setup.role("answer")) == "openai:gpt-4o", "what is not said stays as it was"
    assert setup.routes["openai"].max_tokens == 2048
    assert setup.routes["openai"].model_for("gpt-4o-mini") == "gpt-4.1-mini"
    house = setup.routes["house"]
    assert house.base_url == "https://llm.example.org/v1"
    assert house.headers == (("x-team", "memory"),)
    assert house.model_for("house-9") == "house-9"
    assert house.model_for("gpt-4o") is None
    assert setup.key_of(house) == "hk-0123456789"
    zep = setup.routes["zep"]
    assert zep.auth.prefix == "Api-Key "
    assert zep.path_pattern("/sessions/s1/memory") == "/sessions/{id}/memory"
    assert load_setup("mine", tmp_path, env={})[1] == tmp_path / "prices.yaml"


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[models.routes.x]\nmax_tokens = 1\n", "needs base_url"),
        ('[models.routes.x]\nbase_url = "https://u:p@x/v1"\n', "base_url"),
        ('[models.routes.openai]\nkey = "sk-proj-put-here-by-mistake"\n', "key"),
        ("[models.routes.openai]\nkeey = 1\n", "keey"),
        ('[models.routes.openai]\nmax_tokens = "many"\n', "max_tokens"),
        ('[models.routes.v]\nbase_url = "https://v/"\nkind = "vendor"\n', "paths and fields"),
        ('[profiles.openai]\njudge = "nowhere:m"\n', "nowhere"),
        ('[profiles.openai]\njudge = "no model"\n', "ROUTE:MODEL"),
        ("[models", "not TOML"),
    ],
)
def test_what_cannot_be_used_is_refused(toml: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        load(tmp_path, "openai", "", toml)
    assert words in str(refused.value)
    assert "put-here-by-mistake" not in str(refused.value)


def test_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="openai"):
        load(tmp_path, "openay")
    setup = load(tmp_path, "openai", "OPENAI_API_KEY=sk-x-0123456789\n")
    with pytest.raises(UsageError, match="OPENAI_MODEL"):
        setup.role("answer")
    with pytest.raises(UsageError, match="unknown role"):
        setup.role("chef")
    with pytest.raises(UsageError, match="must be a number"):
        load(tmp_path, "openai", "OPENAI_TIMEOUT=soon\n")
    with pytest.raises(UsageError, match="positive"):
        load(tmp_path, "openai", "LLM_MAX_CONCURRENT=0\n")
    assert RoleModel.parse("a:b:c") == RoleModel("a", "b:c")


def test_dotenv_forms(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_bytes(
        b'\xef\xbb\xbfA=1\r\n B = two words # note\nC=\'#not a note\'\nD="x\\n\\"y\\"" # z\n'
        b"E=a#b\nF=\nG=#c\n"
    )
    assert read_dotenv(path) == {
        "A": "1",
        "B": "two words",
        "C": "#not a note",
        "D": 'x\n"y"',
        "E": "a#b",
        "F": "",
        "G": "",
    }
    assert dict(load_variables(tmp_path, {"A": "9"}))["A"] == "9"
    assert read_dotenv(tmp_path / "none") == {}
    path.write_text("OK=1\nsk-a-key-without-a-name\nX='open\n")
    with pytest.raises(DataError) as refused:
        read_dotenv(path)
    assert [problem.line for problem in refused.value.problems] == [2, 3]
    assert "without-a-name" not in str(refused.value)


def test_which_variables_are_secret() -> None:
    held = Secrets(
        {"HF_TOKEN": "1", "OPENAI_MAX_TOKENS": "2", "DB_PASSWORD": "3", "OPENAI_BASE_URL": "4"}
    )
    assert held.secret_values() == ["1", "3"]
