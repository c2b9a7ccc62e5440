"""The node SDK through the relay. Not run where node or npm are missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relay.rig import Host, SDKBox, completion, plain, started

SCRIPT = """
import OpenAI from "openai";
const client = new OpenAI();
const messages = [{ role: "user", content: "hello" }];
const model = "gpt-test";
const out = {};
out.chat = (await client.chat.completions.create({ model, messages })).choices[0].message.content;
const stream = await client.chat.completions.create({
  model, messages, stream: true, stream_options: { include_usage: true },
});
out.stream = "";
for await (const chunk of stream) {
  out.stream += chunk.choices[0]?.delta?.content ?? "";
  out.usage = chunk.usage ?? out.usage;
}
const responses = await client.responses.create({ model, input: "hello", stream: true });
out.events = [];
for await (const event of responses) {
  out.events.push(event.type);
  if (event.type === "response.completed") out.response = event.response.output[0].content[0].text;
}
const made = await client.embeddings.create({
  model: "embed-test", input: ["a", "abc"], encoding_format: "float",
});
out.embeddings = made.data.map((entry) => entry.embedding);
out.models = [];
for await (const entry of client.models.list()) out.models.push(entry.id);
const many = Array.from({ length: 64 }, (_, i) =>
  client.chat.completions.create({ model, messages: [{ role: "user", content: `number ${i}` }] }));
out.many = (await Promise.all(many)).map((reply) => reply.choices[0].message.content);
const url = "data:image/png;base64," + "A".repeat(20_000_000);
const big = [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }];
const seen = await client.chat.completions.create({ model, messages: big });
out.big = seen.choices[0].message.content;
try {
  await client.chat.completions.create({ model: "refuse", messages });
} catch (error) {
  out.error = [error.constructor.name, error.status, error.code];
}
try {
  const impatient = { timeout: 300, maxRetries: 0 };
  await client.chat.completions.create({ model: "wait", messages }, impatient);
} catch (error) {
  out.timeout = error.constructor.name;
}
console.log(JSON.stringify(out));
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the newest ``openai`` of npm."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("no node or no npm: the node SDK was not tried")
    folder = tmp_path_factory.mktemp("node")
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), "openai"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=200)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        pytest.skip(f"npm cannot install openai here: {lines[0]}")
    (folder / "ask.mjs").write_text(SCRIPT)
    return folder


@pytest.fixture
def asked(project: Path, tmp_path: Path) -> Iterator[tuple[dict[str, Any], Host, SDKBox]]:
    """What the script saw, run beside a box with the box's own variables."""
    host = Host()

    def answer(params: dict[str, Any]) -> Any:
        model = params.get("body", {}).get("model")
        if model == "refuse":
            error = {"message": "no", "type": "x", "param": None, "code": "too_many"}
            return {"status": 429, "headers": {}, "body": {"error": error}}
        return host.hold(params) if model == "wait" else plain(params)

    host.answer = answer
    with started(tmp_path, host) as box:
        given = box.do("environment")["env"]
        env = {name: value for name, value in given.items() if name.startswith("OPENAI_")}
        done = subprocess.run(
            ["node", "ask.mjs"],
            cwd=project,
            env={**env, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        yield json.loads(done.stdout), host, box
        host.released.set()


@pytest.mark.slow
def test_the_node_sdk(asked: tuple[dict[str, Any], Host, SDKBox]) -> None:
    out, host, box = asked
    assert out["chat"] == out["stream"] == "you said hello"
    assert out["usage"] == completion("")["usage"]
    assert out["response"] == "you said hello"
    assert out["events"][0] == "response.created"
    assert out["events"][-1] == "response.completed"
    assert out["embeddings"] == [[1, 0.5], [3, 0.5]]
    assert out["models"] == ["gpt-test"]
    assert out["many"] == [f"you said number {i}" for i in range(64)]
    assert "20000" in out["big"]
    assert out["error"] == ["RateLimitError", 429, "too_many"]
    assert sum(request.get("body", {}).get("model") == "refuse" for request in host.asked) == 1
    assert out["timeout"] == "APIConnectionTimeoutError"
    box.do("models")
    assert box.last.meta["degraded"] == ["client_timeout"]
