"""The Dockerfiles that memrig writes: the classic builder's subset, no shell near an address."""

from __future__ import annotations

import json

import pytest

from harness.outcomes import BuildError
from harness.sandbox.dockerfile import Install, baseline_image, plain_layer, torch_layer


def image(own: str | None = None, install: Install | None = None, **changes: object) -> str:
    given: dict[str, object] = {
        "apt": (), "packages": True, "torch": "none", "python_path": (), **changes,
    }  # fmt: skip
    return baseline_image(own, install or Install(), **given)  # type: ignore[arg-type]


def pip_of(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.startswith("RUN [") and '"install"' in line]
    assert len(lines) == 1
    found: list[str] = json.loads(lines[0].removeprefix("RUN "))
    return found


def test_binary_wheels_only_but_for_the_exceptions() -> None:
    argv = pip_of(image(install=Install(sdist_allowed=("old-one",))))
    at = argv.index("--only-binary")
    assert argv[at : at + 4] == ["--only-binary", ":all:", "--no-binary", "old-one"]
    assert "--require-hashes" in argv
    assert "--no-deps" in argv


def test_where_packages_come_from() -> None:
    index = Install("https://a/simple; rm -rf /", ("https://b/simple",), ca=True)
    argv = pip_of(image(install=index))
    assert argv[argv.index("--index-url") + 1] == "https://a/simple; rm -rf /"
    assert argv[argv.index("--extra-index-url") + 1] == "https://b/simple"
    assert argv[argv.index("--cert") + 1] == "/tmp/build/ca.pem"
    assert "--no-index" in pip_of(image(install=Install("none", wheels=True)))


def test_nothing_is_trusted_blindly() -> None:
    texts = [image(install=Install(ca=True, wheels=True)), plain_layer()]
    texts.append(torch_layer("torch==1", Install(wheels=True), None))
    for text in texts:
        assert "--trusted-host" not in text
        assert "--mount" not in text  # BuildKit only


def test_the_box_is_not_root_and_starts_the_loop() -> None:
    lines = image().splitlines()
    assert lines[-3:] == [
        "WORKDIR /state", "ENTRYPOINT []",
        'CMD ["/opt/venv/bin/python", "-m", "harness.adapter.serve"]',
    ]  # fmt: skip
    user = [line for line in lines if line.startswith("USER ")][-1]
    assert user == "USER 10001:10001"


def test_without_packages_pip_is_not_called() -> None:
    assert "pip" not in image(packages=False)


def test_own_dockerfile_is_the_head() -> None:
    own = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nRUN touch /mine\n"
    text = image(own)
    assert text.startswith(own)
    assert text.count("FROM") == 1


def test_wheels_stay_in_a_stage_of_their_own() -> None:
    own = (
        "ARG BASE_IMAGE\nFROM busybox AS first\nfrom --platform=linux/amd64 ${BASE_IMAGE}\nRUN x\n"
    )
    text = image(own, Install(wheels=True))
    assert "from --platform=linux/amd64 ${BASE_IMAGE} AS memrig-head\nRUN x" in text
    last = text[text.rindex("FROM ") :]
    assert last.startswith("FROM memrig-head\n")
    assert "COPY --from=memrig-packages /opt/venv /opt/venv" in last
    assert "build/" not in last
    named = image("FROM x AS mine\n", Install(wheels=True))
    assert "FROM mine AS memrig-packages" in named


def test_a_dockerfile_without_from_is_refused() -> None:
    with pytest.raises(BuildError, match="no FROM"):
        image("RUN x", Install(wheels=True))
