"""The extractive answerer: one sentence, forty tokens, or nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.adapter.records import RetrievalRecord, RetrievedItem
from harness.adapter.text import sentences, tokens
from harness.pipeline.answer import (
    MAX_TOKENS,
    NOT_MENTIONED,
    Answer,
    ExtractiveAnswerer,
    QuestionView,
    _parts,
    content_tokens,
    shortened,
)

answer = ExtractiveAnswerer()


def items(*texts: str) -> RetrievalRecord:
    return RetrievalRecord(tuple(RetrievedItem(str(n), text) for n, text in enumerate(texts)))


@pytest.mark.parametrize(
    ("question", "texts", "expected"),
    [
        (
            "What breed is the dog?",
            ["I like tea.", "My dog Rex is a beagle. He barks at night."],
            Answer("My dog Rex is a beagle.", 1),
        ),
        (
            "那只狗叫什么名字？",
            ["小明喜欢喝茶。", "我的狗叫旺财。它很可爱。"],
            Answer("我的狗叫旺财。", 1),
        ),
        ("Where is the moon base?", ["I like tea."], Answer(NOT_MENTIONED)),
        ("Where is the moon base?", [], Answer(NOT_MENTIONED)),
        ("Where is the moon base?", ["", "  ", "!!!"], Answer(NOT_MENTIONED)),
        ("???", ["anything"], Answer(NOT_MENTIONED)),
        # Equal sentences: the better rank.
        (
            "Who has the key?",
            ["Ann has the key.", "Ann has the key."],
            Answer("Ann has the key.", 0),
        ),
        # One word of five is a side word.
        (
            "Which colour did the kitchen walls get in spring?",
            ["In spring we flew to Rome."],
            Answer(NOT_MENTIONED),
        ),
    ],
)
def test_examples(question: str, texts: list[str], expected: Answer) -> None:
    assert answer(QuestionView(question), items(*texts)) == expected


def test_a_word_that_all_candidates_have_decides_nothing() -> None:
    pool = [f"Caroline talked about topic{n}." for n in range(30)]
    found = answer(QuestionView("What about Caroline's topic7?"), items(*pool))
    assert found == Answer("Caroline talked about topic7.", 7)
    assert answer(QuestionView("Caroline's blood type?"), items(*pool)).text == NOT_MENTIONED


def test_function_words_do_not_count() -> None:
    assert content_tokens("What is the colour of Ann's car?") == ["colour", "ann", "car"]
    assert content_tokens("他的车是什么颜色？") == ["车", "颜", "色"]
    assert content_tokens("What is it?") == ["what", "is", "it"]


words = st.text("abcdefg hijk .!? 狗猫茶。\n-'", max_size=60)


@given(words, st.lists(words, max_size=6))
def test_always_a_piece_of_one_sentence_of_one_item(question: str, texts: list[str]) -> None:
    found = answer(QuestionView(question), items(*texts))
    assert found == ExtractiveAnswerer()(QuestionView(question), items(*texts))
    if found.item_rank is None:
        assert found.text == NOT_MENTIONED
        return
    assert any(found.text in sentence for sentence in sentences(texts[found.item_rank]))
    assert len(tokens(found.text)) <= MAX_TOKENS
    assert set(tokens(found.text)) & set(content_tokens(question))


@given(
    st.lists(st.sampled_from(["ab", "c-d", "狗猫茶水", "don't", "-", "Ünïcode", "ﬃ"]), max_size=90),
    st.sampled_from(["ab", "狗", "d"]),
)
def test_a_long_sentence_is_cut_between_tokens(parts: list[str], wanted: str) -> None:
    text = " ".join(parts)
    short = shortened(text, {wanted})
    every, kept = tokens(text), tokens(short)
    assert len(kept) <= MAX_TOKENS and short in text
    places = [n for n in range(len(every) + 1) if every[n : n + len(kept)] == kept]
    assert places
    assert len(kept) == min(len(every), MAX_TOKENS)
    assert (wanted in kept) == (wanted in every)


def test_a_whole_history_is_answered_from_in_reasonable_time() -> None:
    pool = items(
        *(f"[8 May] Ann: turn {n} about thing{n % 97}. Then topic{n % 31}!" for n in range(1400))
    )
    began = time.perf_counter()
    answer(QuestionView("What about thing5?"), pool)
    first = time.perf_counter() - began
    began = time.perf_counter()
    for n in range(20):
        answer(QuestionView(f"What about thing{n}?"), pool)
    assert first < 3.0 and (time.perf_counter() - began) / 20 < first


def slow_parts(text: str) -> list[str]:
    """What the parts of a word are, by the letter: tokens anew for every character."""
    made, begin = [], 0
    for place in range(1, len(text) + 1):
        inside = tokens(text[begin:place])
        follows = tokens(text[begin : place + 1]) if place < len(text) else []
        if place == len(text) or (inside and len(follows) > len(inside)):
            made.append(text[begin:place])
            begin = place
    return made


strange = st.sampled_from(
    "aé-._9ßİſﬃ㍿ﷺ狗猫か゛がﾊﾞ\u3099\u0301\u0327\u0345\u1100\u1161\u11a8한하ﾡￂ½´①\u200d\u09c7\u09be"
)


@given(st.text(strange | st.characters(codec="utf-8"), min_size=1, max_size=25))
@settings(max_examples=300)
def test_a_word_is_cut_as_if_every_character_were_tried(word: str) -> None:
    cut = [word[piece.start : piece.end] for piece in _parts(word, 0, len(word))]
    assert cut == slow_parts(word)


@pytest.mark.parametrize(
    ("text_of", "size"),
    [
        (lambda n: "w " * 60 + "a" + "." * n + "b", 2_000_000),
        (lambda n: "a.b" * n, 200_000),
        (lambda n: "x y " * n, 3_000_000),
        (lambda n: "w " * 60 + "a-e" + "\u0301" * n + "b", 300_000),
    ],
    ids=["punctuation", "one word", "12 MB of words", "marks"],
)
def test_huge_texts_take_time_in_proportion(text_of: Callable[[int], str], size: int) -> None:
    """The quadratic way takes hours for these; a share of each says how long is fair."""

    def seconds(part: str) -> float:
        began = time.perf_counter()
        found = answer(QuestionView("What about w and x and ba?"), items(part))
        assert found.item_rank == 0
        return time.perf_counter() - began

    small = seconds(text_of(size // 20))
    assert seconds(text_of(size)) < 60 * small + 5.0
