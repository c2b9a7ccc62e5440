"""Key matching: whole numbers, borders, Chinese numerals, conditions, folding."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judging.match import LongForms, canonical, compile_key, folded, key_in
from harness.outcomes import DataError
from harness.samples import Key

FOUND = [
    ("1,600", "it costs 1600"),
    ("1600", "it costs 1,600 now"),
    ("1,234,567", "1234567 people"),
    ("3", "３ cats"),
    ("3.5", "ran 3.5 km"),
    ("3km", "ran 3km"),
    ("3", "ran 3km"),
    ("3", "the 3rd"),
    ("3", "I have 3."),
    ("3", "(3)"),
    ("30", "30%"),
    ("12", "on 2024-12-05"),
    ("dark mode", "Dark **mode** is on"),
    ("dark mode", "# DARK\nmode"),
    ("don't", "I don’t know"),
    ("well-known", "a well‑known bar"),
    ("2019-2020", "2019–2020"),
    ("can", "she can do it"),
    ("john", "john's car"),
    ("foo bar", "[foo bar](http://example.org/x)"),
    ("strasse", "Straße"),
    ("café", "cafe\u0301"),
    ("三百二十", "320元"),
    ("320", "一共三百二十元"),
    ("320", "一共三百二元"),
    ("302", "三百零二元"),
    ("12000", "一万二"),
    ("1500", "一千五"),
    ("10500", "一万零五百"),
    ("1005", "一千零五"),
    ("1050", "一千零五十"),
    ("3000000", "三百万"),
    ("100000000", "一亿"),
    ("120000000", "一亿二千万"),
    ("15", "十五"),
    ("20", "二十"),
    ("2", "两只猫"),
    ("两只猫", "2只猫"),
    ("2只", "二只"),
    ("2019", "二〇一九年"),
    ("2019", "二零一九年"),
    ("30000", "3万"),
    ("16000", "1.6万"),
    ("30%", "百分之三十"),
    ("3.5", "三点五公里"),
    ("3月15日", "三月十五日"),
    ("养了三", "养了三只猫"),
    ("三", "三只"),
    ("10", "十分钟"),
    ("1", "下午一点"),
    ("猫", "我喜欢猫咪"),
    ("住在3楼", "住在 3 楼"),
    ("iphone手机", "iPhone 手机"),
    ("3200", "共３，２００元"),
    ("3½", "3½ hours"),
    ("3 1/2", "3½ hours"),
    ("½", "half is ½."),
    ("10²", "10^2 rooms"),
    ("m2", "20 m²"),
    ("-5", "it was −5 degrees"),
    ("-5", "温度-5度"),
    ("5", "3号-5号"),
    ("10", "10-20 people"),
    ("20", "10-20 people"),
    ("3", "1,2,3"),
    ("12", "2024/12/05"),
    ("3,5", "3,5 km"),
    ("3", "3, 5 and 7"),
    ("1/3", "三分之一的人"),
    ("1.5公里", "一点五公里"),
    ("3.14", "三点一四"),
    ("5点20", "五点二十放学"),
    ("20", "廿"),
    ("23", "廿三日"),
    ("30", "卅"),
    ("1米31", "身高一米三一"),
    ("5", "the answer -- 5"),
]
NOT_FOUND = [
    ("3", "13 cats"),
    ("3", "31 cats"),
    ("600", "it costs 1,600"),
    ("1", "it costs 1,600"),
    ("3", "3.5 km"),
    ("5", "3.5 km"),
    ("3.1", "version 3.10"),
    ("7", "at 7:30"),
    ("3", "an mp3"),
    ("3", "3kittens"),
    ("34", "3*4"),
    ("cat", "concatenate"),
    ("cat", "cats"),
    ("can", "she can't"),
    ("can", "she can’t"),
    ("1", "一起去"),
    ("1", "一点也不"),
    ("10", "十分高兴"),
    ("3", "三四天"),
    ("3", "三十只"),
    ("10", "十三只"),
    ("三", "十三只"),
    ("三", "三十只"),
    ("养了三", "养了三十只猫"),
    ("320", "三百二十五元"),
    ("1000", "三千"),
    ("3", "13只"),
    ("dark mode", "dark and mode"),
    ("31", "3½ hours"),
    ("3", "3½ hours"),
    ("½", "3½ hours"),
    ("1", "½ an hour"),
    ("2", "½ an hour"),
    ("102", "10² rooms"),
    ("10", "10² rooms"),
    ("2", "10² rooms"),
    ("31", "3① cats"),
    ("5", "-5 degrees"),
    ("5", "it was −5 degrees"),
    ("5", "温度-5度"),
    ("-5", "10-5"),
    ("3", "3,5 km"),
    ("5", "3,5 km"),
    ("3", "3/4 of it"),
    ("4", "3/4 of it"),
    ("3", "三分之一"),
    ("1", "三分之一"),
    ("5", "一点五公里"),
    ("5", "a share of .5"),
]


@pytest.mark.parametrize(("key", "text"), FOUND)
def test_found(key: str, text: str) -> None:
    assert key_in(key, text), (canonical(key), canonical(text))


@pytest.mark.parametrize(("key", "text"), NOT_FOUND)
def test_not_found(key: str, text: str) -> None:
    assert not key_in(key, text), (canonical(key), canonical(text))


def test_full_width_comma_ends_a_clause() -> None:
    assert not key_in("3200", "我有3，200个是你的")
    assert key_in("200", "我有3，200个是你的")


def test_any_variant_counts() -> None:
    key = Key(("NYC", "New York"))
    assert key_in(key, "in new york") and key_in(key, "in NYC.")
    assert not key_in(key, "in York")


def test_not_before_and_not_after_look_at_the_neighbours_only() -> None:
    allergic = Key(("allergic",), not_before=("not",))
    assert not key_in(allergic, "She is not allergic")
    assert not key_in(allergic, "She is not **allergic**")
    assert key_in(allergic, "a knot allergic")  # "not" must be a word
    assert key_in(allergic, "He is not allergic, she is allergic")
    assert key_in(allergic, "not really allergic")
    likes = Key(("喜欢",), not_before=("不",), not_after=("过",))
    assert not key_in(likes, "他不喜欢猫")
    assert not key_in(likes, "他喜欢过猫")
    assert key_in(likes, "他喜欢猫")
    boston = Key(("Boston",), not_after=("marathon",))
    assert not key_in(boston, "the Boston Marathon") and key_in(boston, "Boston marathons")


@pytest.mark.parametrize("text", ["", "  ", "**", "...", "\u200b"])
def test_a_key_with_nothing_to_look_for_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        compile_key(Key((text,)))


WORDS = st.text(alphabet="abcdefgh", min_size=1, max_size=6)


@given(WORDS, st.lists(WORDS, max_size=6), st.lists(WORDS, max_size=6))
def test_a_word_is_found_among_words_exactly_if_it_is_one(
    word: str, before: list[str], after: list[str]
) -> None:
    assert key_in(word, " ".join([*before, word, *after]))
    others = [w for w in before + after if w != word]
    assert not key_in(word, " ".join(others))


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_number_is_only_itself(a: int, b: int) -> None:
    for text in (f"about {a} of them", f"about {a:,} of them", f"约{a}个"):
        assert key_in(str(b), text) == (a == b)
        assert key_in(f"{b:,}", text) == (a == b)


def chinese(n: int) -> str:
    """A reading of n, written without looking at the code under test."""
    digits = "零一二三四五六七八九"
    if n == 0:
        return ""
    out, text = "", str(n)
    for place, digit in zip(range(len(text) - 1, -1, -1), text, strict=True):
        out += digits[int(digit)] + ["", "十", "百", "千"][place] if digit != "0" else "零"
    while "零零" in out:
        out = out.replace("零零", "零")
    return out.rstrip("零")


def long_chinese(n: int) -> str:
    high, low = divmod(n, 10_000)
    if not high:
        return chinese(low)
    gap = "零" if 0 < low < 1000 else ""
    return chinese(high) + "万" + gap + chinese(low)


@given(st.integers(11, 99_999_999), st.integers(11, 99_999_999))
def test_chinese_numerals_are_numbers(a: int, b: int) -> None:
    text = f"一共{long_chinese(a)}元"
    assert key_in(str(a), text), (text, canonical(text))
    assert key_in(long_chinese(a), f"{a}元")
    assert key_in(str(b), text) == (a == b)


@given(st.text(max_size=80))
def test_any_text_folds_and_finds_itself(text: str) -> None:
    form = canonical(text)
    assert "  " not in form and form == form.strip()
    if any(c.isalnum() for c in form):
        key_in(text, text)  # must not raise, whatever the text


@given(st.text(alphabet="ab 3,.", min_size=1, max_size=20))
def test_plain_text_folds_to_the_same_form_twice(text: str) -> None:
    assert canonical(canonical(text)) == canonical(text)


def test_matching_is_fast_enough_for_a_million_looks() -> None:
    keys = [compile_key(Key((str(n),))) for n in range(1000, 2000)]
    text = canonical("The user's harbour locker code is 1777.")
    start = time.perf_counter()
    found = sum(key.found_in(text) for _ in range(20) for key in keys)
    per_look = (time.perf_counter() - start) / 20_000
    assert found == 20
    assert per_look < 20e-6


def test_a_long_text_is_brought_to_its_form_once() -> None:
    texts = [f"{n} " + "The user likes **1,600** things in Boston. " * 20_000 for n in range(4)]
    first = [folded(text) for text in texts]
    assert first == [canonical(text) for text in texts]
    assert all(folded(text) is form for text, form in zip(texts, first, strict=True))


def test_what_is_held_of_long_texts_is_bounded() -> None:
    forms = LongForms(limit=250)
    a, b, c = (name * 100 for name in "abc")
    held = forms.form(a)
    assert forms.form(a) is held
    forms.form(b), forms.form(c)
    assert forms.form(a) is not held
    assert forms.form("d" * 1000) == "d" * 1000


@pytest.mark.parametrize(
    "piece", ["一", "1", "十万", "一分之", "1点", "一点", "½", "²", "1,", "[a", "*_"]
)
def test_no_text_takes_for_ever(piece: str) -> None:
    start = time.perf_counter()
    canonical("猫" + piece * 30_000)
    assert time.perf_counter() - start < 5


def test_a_number_of_thousands_of_digits_is_text() -> None:
    assert key_in("猫", "猫" + "1" * 6000 + "万")
