"""Finding keys in free text, by rule and without a model.

A key and a text are brought to one canonical form (:func:`canonical`) and the key is then looked
for at token borders (:class:`CompiledKey`). What the form levels, on both sides alike:

- Unicode: NFKC (so full-width digits are digits) and case; zero-width characters go.
- dashes, apostrophes and quotation marks of all kinds become ``-``, ``'`` and ``"``.
- Markdown marks (bold, code, headings, bullets, quotes, links) go, the words stay.
- white space collapses to one blank, and beside a CJK character to none (``3 只`` is ``3只``).
- ``1,600`` is ``1600``; a list written ``100,200`` without a blank is read as one number.
- Chinese numerals are numbers: ``三百二十`` is ``320``, ``两只`` is ``2只``, ``二〇一九`` is
  ``2019``, ``3万`` is ``30000``, ``百分之三十`` is ``30%``. A single numeral counts only where a
  measure word follows or ``第`` precedes, so that ``一起`` (together) is no number.

- ``½`` is ``1/2`` and ``3½`` is ``3 1/2``; ``10²`` is ``10^2``; ``三分之一`` is ``1/3``,
  ``一点五公里`` ``1.5公里``, ``一米三一`` ``1米31``, ``廿`` ``20``.

Borders: a match that begins or ends with a letter or digit may not touch another letter or digit,
CJK characters apart, which need no border. A number is whole: 3 is not in 13, 3.5 or 3:15, and may
be followed by a unit (``3km``, ``3rd``). Nor is 3 in 3,5 (a decimal), 3/4 or 3 1/2; 10 in 10^2; or
5 in -5 (a sign; ``minus`` in words is none). Three parts or more are a list or a date, whose parts
count: 12 is in 2024/12/05 and in 2024-12-05. So do the two ends of a range: 10 is in 10-20.
``can`` is not in ``can't``. Decimals are compared as written (``3.10`` is not ``3.1``: it could be
a version).

This is deterministic and not exact: it does not understand a negation that the key's author has
not written down as ``not_before`` or ``not_after``.
"""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from harness.judging.numerals import chinese_numbers, loose_numeral
from harness.outcomes import DataError, Problem
from harness.samples import Key

#: Counts up whenever a verdict could change; part of every preset's id.
VERSION = 2

CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3007\u3040-\u30ff\uac00-\ud7af"
_WORD = f"[^\\W_{CJK}]"  # a letter or digit that needs a border
_IS_WORD = re.compile(_WORD)
_HAS_CJK = re.compile(f"[{CJK}]")

_LEVEL: dict[int, str | None] = {0xB7: " "}
_LEVEL |= {ord(c): "-" for c in "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b"}
_LEVEL |= {ord(c): "'" for c in "\u2018\u2019\u201a\u201b\u02bc\u02b9\u2032\u00b4"}
_LEVEL |= {ord(c): '"' for c in "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u300c\u300d"}
_LEVEL |= {0x2044: "/"}
_LEVEL |= {c: None for c in (0xAD, 0xFEFF, *range(0x200B, 0x2010), *range(0x2060, 0x2065))}

_LINK = re.compile(r"!?\[([^\][]*)\]\([^()\s]*\)")
_LINE_MARK = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+)+", re.MULTILINE)
_INLINE_MARK = re.compile(
    r"`+|~~|(?<![0-9])\*+|\*+(?![0-9*])|(?<!\w)_{1,3}(?=\w)|(?<=\w)_{1,3}(?!\w)"
)
_SPACE = re.compile(r"\s{2,}|[^\S ]")
#: Characters that NFKC writes as digits and that are no digits of the number before them.
_POWER = re.compile("(?<=[0-9])[\u00b2\u00b3\u00b9\u2070\u2074-\u207b]+")
_OTHER_NUMBER = re.compile(
    "(?P<before>(?<=\\d))?[\u00bc-\u00be\u2150-\u215f\u2189\u2460-\u249b\u24ea-\u24ff\u2776-\u2793"
    "\u3220-\u3229\u3248-\u324f\u3251-\u325f\u3280-\u3289\u32b1-\u32cb\u3358-\u3370\u33e0-\u33fe]"
    "(?P<after>(?=\\d))?"
)
_CJK_SPACE = re.compile(f"(?<=[{CJK}]) | (?=[{CJK}])")
#: A full-width comma ends a clause, unless between full-width digits (NFKC loses the difference).
_CLAUSE_END = re.compile("\uff0c(?![\uff10-\uff19])|(?<![\uff10-\uff19])\uff0c")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d])")

_UNITS = (
    "st|nd|rd|th|am|pm|h|hr|hrs|min|mins|s|sec|ms|d|km|m|cm|mm|mi|ft|in|kg|g|mg|lb|lbs|oz|l|ml|"
    "kb|mb|gb|tb|mph|kmh|usd|eur|rmb|cny|yo|yrs|yr|x"
)
# Borders are checked by these few shared patterns: one pattern a key would cost 10 ms to compile,
# because of the CJK ranges.
_AFTER_NUMBER = re.compile(
    f"(?:(?!{_WORD})|(?=(?:{_UNITS})(?!{_WORD})))"
    r"(?![.:^][0-9]|\^-| [0-9]+/[0-9]+(?!/?[0-9]))"
)
#: The two parts of a fraction or of a decimal with a comma; more parts are a date or a list.
_PAIR = re.compile(r"[0-9]+([,/])[0-9]+(?!\1?[0-9])")
_AFTER_WORD = re.compile(f"(?!{_WORD})(?!'t(?!{_WORD}))")
_NUMERALS = frozenset("零〇一二三四五六七八九十百千万亿两廿卅")
_OPENING = " \"'([{"
_CLOSING = " \"')]},;:"


def canonical(text: str) -> str:
    """The one form in which keys and texts are compared (see the module's docstring)."""
    if text.isascii():
        text = text.lower()
    else:
        text = _OTHER_NUMBER.sub(_apart, _POWER.sub(r"^\g<0>", _CLAUSE_END.sub("\uff0c ", text)))
        text = unicodedata.normalize("NFKC", text)
        text = unicodedata.normalize("NFKC", text.casefold()).translate(_LEVEL)
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    text = _LINE_MARK.sub("", text)
    if any(mark in text for mark in "`~*_"):
        text = _INLINE_MARK.sub("", text)
    text = _SPACE.sub(" ", text).strip()
    if "," in text:
        text = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), text)
    if not text.isascii() and _HAS_CJK.search(text):
        text = chinese_numbers(_CJK_SPACE.sub("", text))
    return text


def _apart(found: re.Match[str]) -> str:
    """A character that stands for a number, with a blank between it and the digits beside it."""
    before = "" if found["before"] is None else " "
    return before + found[0] + ("" if found["after"] is None else " ")


_CACHED_LENGTH = 2000


@lru_cache(maxsize=4096)
def _canonical_cached(text: str) -> str:
    return canonical(text)


class LongForms:
    """Canonical forms of long texts by the hash of the text, ``limit`` characters at most."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._forms: OrderedDict[bytes, str] = OrderedDict()
        self._lock = threading.Lock()

    def form(self, text: str) -> str:
        """:func:`canonical`, made once while it is held; the oldest forms go first."""
        name = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()
        with self._lock:
            found = self._forms.get(name)
            if found is not None:
                self._forms.move_to_end(name)
                return found
        made = canonical(text)
        with self._lock:
            if name not in self._forms and len(made) <= self._limit:
                self._forms[name] = made
                self._held += len(made)
                while self._held > self._limit:
                    self._held -= len(self._forms.popitem(last=False)[1])
        return made


#: Snapshots repeat their items session after session: room for a store of some 64 MB of text.
_LONG = LongForms(64_000_000)


def folded(text: str) -> str:
    """:func:`canonical`, remembered: a store is looked at often."""
    return _canonical_cached(text) if len(text) <= _CACHED_LENGTH else _LONG.form(text)


def _is_word(character: str) -> bool:
    if character.isascii():
        return character.isalnum()
    return _IS_WORD.match(character) is not None


def _kind(character: str) -> str:
    if character.isdecimal():
        return "digit"
    return "word" if _is_word(character) else "other"


@dataclass(frozen=True)
class _Variant:
    """A text to look for, and its borders: "digit", "signed", "word", "numeral" or "other"."""

    text: str
    left: str
    right: str

    def borders(self, text: str, start: int) -> bool:
        """Whether an occurrence at ``start`` stands at borders."""
        return self._left(text, start) and self._right(text, start + len(self.text))

    def _left(self, text: str, start: int) -> bool:
        if start == 0 or self.left == "other":
            return True
        before = text[start - 1]
        if self.left == "numeral":
            return before not in _NUMERALS
        if _is_word(before):
            return False
        if self.left == "digit" and before in ".:^,/- ":
            return not self._goes_on(text, start, before)
        return not (self.left == "signed" and before in ".,-")

    def _goes_on(self, text: str, start: int, before: str) -> bool:
        """Whether a number begins before ``start`` already, or has a sign."""
        further = text[start - 2] if start > 1 else " "
        if before == " ":  # 3 1/2
            return further.isdecimal() and _pair_at(text, start, "/")
        if before == "-":
            return self._is_sign(text, start, further)
        if before in ",/":
            return further.isdecimal() and _ends_pair(text, start - 1)
        if further.isdecimal():
            return True
        return before == "^" or (before == "." and further in " ($\"'")

    @staticmethod
    def _is_sign(text: str, start: int, further: str) -> bool:
        if further == "-" or _is_word(further):
            return further == "^"
        if _HAS_CJK.match(further):  # 温度-5度, but 3号-5号
            return not (start > 2 and text[start - 3].isdecimal())
        return further not in "%)]°"

    def _right(self, text: str, end: int) -> bool:
        if end == len(text) or self.right == "other":
            return True
        if self.right == "numeral":
            return text[end] not in _NUMERALS
        if self.right != "digit":
            return _AFTER_WORD.match(text, end) is not None
        if text[end] in ",/" and _ends_pair(text, end):
            return False
        return _AFTER_NUMBER.match(text, end) is not None


def _pair_at(text: str, start: int, mark: str) -> bool:
    found = _PAIR.match(text, start)
    return found is not None and found[1] == mark


def _ends_pair(text: str, at: int) -> bool:
    """Whether the comma or slash at ``at`` is the only one between digits: 3,5 or 3/4."""
    first = at
    while first and text[first - 1].isdecimal():
        first -= 1
    longer = first > 1 and text[first - 1] == text[at] and text[first - 2].isdecimal()
    return not longer and _pair_at(text, first, text[at])


@dataclass(frozen=True)
class CompiledKey:
    """A key made ready to be looked for many times."""

    label: str
    variants: tuple[_Variant, ...]
    not_before: tuple[str, ...] = ()
    not_after: tuple[str, ...] = ()

    def found_in(self, text: str) -> bool:
        """Whether the key is in a text that is already canonical."""
        for variant in self.variants:
            start = text.find(variant.text)
            while start >= 0:
                if variant.borders(text, start) and not self._excluded(text, start, variant):
                    return True
                start = text.find(variant.text, start + 1)
        return False

    def _excluded(self, text: str, start: int, variant: _Variant) -> bool:
        if self.not_before:
            before = text[:start].rstrip(_OPENING)
            for word in self.not_before:
                rest = before.removesuffix(word)
                if rest != before and not (rest and _is_word(word[0]) and _is_word(rest[-1])):
                    return True
        if self.not_after:
            after = text[start + len(variant.text) :].lstrip(_CLOSING)
            for word in self.not_after:
                rest = after.removeprefix(word)
                if rest != after and not (rest and _is_word(word[-1]) and _is_word(rest[0])):
                    return True
        return False


@lru_cache(maxsize=4096)
def compile_key(key: Key) -> CompiledKey:
    """Compile a key.

    Raises:
        DataError: a variant or a condition has no letter, digit or CJK character to look for.
    """
    if not key.variants:
        raise DataError([Problem("a key without any variant")])
    return CompiledKey(
        label=key.variants[0],
        variants=tuple(made for text in key.variants for made in _variants(_checked(text))),
        not_before=tuple(_checked(text) for text in key.not_before),
        not_after=tuple(_checked(text) for text in key.not_after),
    )


def _checked(text: str) -> str:
    form = canonical(text)
    if not any(character.isalnum() for character in form):
        raise DataError([Problem(f"key {text!r} has nothing to look for in it")])
    return form


def _variants(form: str) -> tuple[_Variant, ...]:
    left, right = _kind(form[0]), _kind(form[-1])
    if form[0] in "-+" and form[1:2].isdecimal():
        left = "signed"
    number = loose_numeral(form)
    if number is None:
        return (_Variant(form, left, right),)
    # "三" at a key's end has no measure word yet; the text may have one ("三只" is "3只").
    head = form[:-1]
    as_written = _Variant(form, left if head else "numeral", "numeral")
    return as_written, _Variant(head + number, left if head else "digit", "digit")


@dataclass(frozen=True)
class KeySet:
    """Keys that must all be found. ``needle`` is in every text that has them; it may be empty."""

    keys: tuple[CompiledKey, ...]
    needle: str = ""

    def __bool__(self) -> bool:
        return bool(self.keys)


#: What a point without keys has.
NO_KEYS = KeySet(())


def compile_keys(keys: Iterable[Key]) -> KeySet:
    """Compile several keys that must all be found."""
    made = tuple(compile_key(key) for key in keys)
    sure = [key.variants[0].text for key in made if len(key.variants) == 1]
    return KeySet(made, max(sure, key=len, default=""))


def all_found(keys: KeySet, text: str) -> bool:
    """Whether a canonical text carries every key. No keys is a programming error."""
    if not keys.keys:
        raise ValueError("an empty set of keys would be found everywhere")
    return keys.needle in text and all(key.found_in(text) for key in keys.keys)


def key_in(key: Key | str, text: str) -> bool:
    """Whether a key is in a raw text: the whole rule in one call, for tools and tests."""
    made = Key((key,)) if isinstance(key, str) else key
    return compile_key(made).found_in(folded(text))
