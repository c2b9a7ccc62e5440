"""The model port is no way out: every rule, and what a refusal leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.models.failures import Refused
from harness.models.policy import Request, admit
from harness.models.routes import Route
from models.rig import chat, finished, gateway_over, route_to, setup_for
from models.scripted import ScriptedServer

PNG = "data:image/png;base64,iVBORw0KGgo="
ROUTE = route_to("http://127.0.0.1:1/v1", aliases=(("gpt-4o*", "gpt-test"),), max_tokens=1000)


def ask(body: dict[str, Any], path: str = "/chat/completions", method: str = "POST") -> Any:
    return admit(Request("openai", method, path, body), ROUTE)


def message(content: Any) -> dict[str, Any]:
    return {"model": "gpt-test", "messages": [{"role": "user", "content": content}]}


def image(url: Any) -> dict[str, Any]:
    return message([{"type": "image_url", "image_url": url}])


PLAIN = message("hi")
RESPONSE = {"model": "gpt-test", "input": "hi"}


@pytest.mark.parametrize(
    ("reason", "body", "path", "method"),
    [
        ("path", PLAIN, "/files", "POST"),
        ("path", PLAIN, "/chat/completions/../files", "POST"),
        ("path", PLAIN, "//evil.example/chat/completions", "POST"),
        ("path", PLAIN, "/chat%2Fcompletions", "POST"),
        ("method", PLAIN, "/chat/completions", "DELETE"),
        ("form", PLAIN, "/chat/completions", "GET"),
        ("model", {**PLAIN, "model": "o9"}, "/chat/completions", "POST"),
        ("model", {"messages": []}, "/chat/completions", "POST"),
        ("model", {**PLAIN, "model": ["gpt-test"]}, "/chat/completions", "POST"),
        ("field", {**PLAIN, "web_search_options": {}}, "/chat/completions", "POST"),
        ("field", {**PLAIN, "plugins": [{"id": "web"}]}, "/chat/completions", "POST"),
        ("field", {**PLAIN, "audio": {}}, "/chat/completions", "POST"),
        ("cap", {**PLAIN, "max_tokens": 1001}, "/chat/completions", "POST"),
        ("cap", {**PLAIN, "max_completion_tokens": True}, "/chat/completions", "POST"),
        ("cap", {**PLAIN, "n": 9}, "/chat/completions", "POST"),
        ("cap", {**PLAIN, "n": 0}, "/chat/completions", "POST"),
        ("cap", {**RESPONSE, "max_output_tokens": 5000}, "/responses", "POST"),
        ("image", image({"url": "https://evil.example/?q=secret"}), "/chat/completions", "POST"),
        ("image", image({"url": "http://127.0.0.1/x.png"}), "/chat/completions", "POST"),
        ("image", image("file:///etc/passwd"), "/chat/completions", "POST"),
        ("image", image({"url": "data:text/html,x"}), "/chat/completions", "POST"),
        ("image", image(None), "/chat/completions", "POST"),
        (
            "part",
            message([{"type": "file", "file": {"file_id": "f"}}]),
            "/chat/completions",
            "POST",
        ),
        ("part", message([{"type": "input_audio"}]), "/chat/completions", "POST"),
        ("form", message([None]), "/chat/completions", "POST"),
        ("form", {"model": "gpt-test", "messages": "hi"}, "/chat/completions", "POST"),
        ("tool", {**PLAIN, "tools": [{"type": "web_search"}]}, "/chat/completions", "POST"),
        ("tool", {**RESPONSE, "tools": [{"type": "code_interpreter"}]}, "/responses", "POST"),
        ("tool", {**RESPONSE, "tools": [{"type": "mcp", "server_url": "u"}]}, "/responses", "POST"),
        ("tool", {**RESPONSE, "tool_choice": {"type": "file_search"}}, "/responses", "POST"),
        ("state", {**RESPONSE, "previous_response_id": "r"}, "/responses", "POST"),
        ("state", {**RESPONSE, "conversation": "c"}, "/responses", "POST"),
        ("state", {**RESPONSE, "background": True}, "/responses", "POST"),
        ("state", {**RESPONSE, "prompt": {"id": "p"}}, "/responses", "POST"),
        (
            "part",
            {**RESPONSE, "input": [{"type": "item_reference", "id": "x"}]},
            "/responses",
            "POST",
        ),
        (
            "file",
            {
                **RESPONSE,
                "input": [
                    {"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}
                ],
            },
            "/responses",
            "POST",
        ),
        (
            "image",
            {
                **RESPONSE,
                "input": [
                    {
                        "type": "function_call_output",
                        "call_id": "c",
                        "output": [{"type": "input_image", "image_url": "https://evil.example"}],
                    }
                ],
            },
            "/responses",
            "POST",
        ),
        ("form", {"model": "gpt-test", "input": {"x": 1}}, "/embeddings", "POST"),
        ("form", {"model": "gpt-test", "input": []}, "/embeddings", "POST"),
    ],
)
def test_refused(reason: str, body: dict[str, Any], path: str, method: str) -> None:
    with pytest.raises(Refused) as refused:
        ask(body, path, method)
    assert refused.value.reason == reason
    assert refused.value.kind == "MODEL_REFUSED"


def test_what_is_let_through_is_left_as_it_was() -> None:
    body = {
        **message(
            [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": PNG}}]
        ),
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "temperature": 0.2,
        "max_tokens": 1000,
        "response_format": {"type": "json_object"},
    }
    assert ask(body).body == body
    assert ask(RESPONSE, "/v1/responses").path == "/responses"
    assert ask({"model": "gpt-test", "input": [[1, 2], [3]]}, "/embeddings").body["input"]


def test_what_is_taken_off_is_named() -> None:
    body = {**PLAIN, "store": True, "metadata": {"a": "b"}, "user": "u", "seed": None}
    admitted = ask({**body, "stream": True, "stream_options": {"include_usage": True}})
    assert admitted.dropped == ("metadata", "store", "user")
    assert admitted.wants_stream
    assert admitted.body == PLAIN
    assert ask({**RESPONSE, "background": False}, "/responses").body == RESPONSE


def test_an_alias_is_what_is_sent() -> None:
    admitted = ask({**PLAIN, "model": "gpt-4o-mini"})
    assert (admitted.asked, admitted.model) == ("gpt-4o-mini", "gpt-test")
    assert admitted.body["model"] == "gpt-test"


def test_a_vendors_route_has_its_own_paths_and_fields() -> None:
    route = Route(
        "zep",
        "https://zep.example/api/v2",
        kind="vendor",
        methods=("GET", "POST"),
        paths=("/sessions/{id}/memory",),
        fields={"/sessions/{id}/memory": frozenset({"messages", "lastn"})},
    )
    good = admit(Request("zep", "POST", "/sessions/s1/memory", {"messages": [1]}), route)
    assert good.body == {"messages": [1]}
    query = Request.from_params(
        {"route": "zep", "method": "get", "path": "/sessions/s1/memory?lastn=3", "body": None}
    )
    assert admit(query, route).query == (("lastn", "3"),)
    for path, body in (
        ("/sessions/a/b/memory", {}),
        ("/sessions//memory", {}),
        ("/sessions/s1/memory", {"webhook": "https://evil.example"}),
    ):
        with pytest.raises(Refused):
            admit(Request("zep", "POST", path, body), route)
    with pytest.raises(Refused):
        admit(Request("zep", "GET", "/sessions/s1/memory", None, (("callback", "x"),)), route)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"route": "openai", "method": "POST", "path": "chat/completions", "body": {}},
        {"route": "openai", "method": "POST", "path": "http://evil.example/", "body": {}},
        {"route": "openai", "method": "POST", "path": "/chat/completions", "body": "text"},
        {"route": "openai", "method": 1, "path": "/chat/completions", "body": {}},
        {"route": "elsewhere", "method": "POST", "path": "/chat/completions", "body": {}},
        {**chat(), "body": {**chat()["body"], "temperature": float("nan")}},
    ],
)
def test_a_refusal_stands_in_the_ledger_and_costs_nothing(
    params: dict[str, Any], tmp_path: Path
) -> None:
    with ScriptedServer() as server, gateway_over(setup_for(server.url), tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001")
        with box.during("ingest_turns") as report, pytest.raises(Refused):
            box(params)
        assert (report.failed, report.refused) == (1, 1)
        row = finished(gateway)[0]
        assert row["outcome"] == "refused"
        assert row["stage"] == "ingest_turns"
        assert row["failure"]["reason"]
        assert server.requests == []


def test_headers_of_the_box_never_leave(tmp_path: Path) -> None:
    with ScriptedServer() as server, gateway_over(setup_for(server.url), tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001")
        box({**chat(), "headers": {"x-leak": "secret", "authorization": "Bearer token-of-box"}})
        sent = server.requests[0].headers
    assert "x-leak" not in sent
    assert "token-of-box" not in str(sent)
