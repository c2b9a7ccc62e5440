"""Who answers the questions: the extractive answerer, and the shape of any other.

The extractive answerer needs no model and is the same for all rows: one sentence of one retrieved
item, chosen by BM25 against the question, or :data:`NOT_MENTIONED`. It can be wrong, it cannot be
creative, so a difference between two rows comes from what they retrieved.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Any, NamedTuple

import bm25s
import numpy as np

from harness.adapter.records import RetrievalRecord
from harness.adapter.text import sentences, tokens

#: The answer that says "the memories do not tell".
NOT_MENTIONED = "not mentioned"

#: The longest answer, in tokens of :func:`harness.adapter.text.tokens`.
MAX_TOKENS = 40

#: A sentence may answer only if it carries at least this share of the weight of the question's
#: content tokens. Fixed by reason, before anything was scored, and not tuned since: a question
#: names what it asks about in some three to five content words, of which a person's name stands in
#: most of the candidates and so weighs little. One full word in four is the least that ties a
#: sentence to a question; less (a common name, one character of ten in Chinese) ties it to nothing.
MIN_SHARE = 0.25

#: A token's weight is BM25's idf over the candidate sentences, read as if there were at least this
#: many of them: fewer cannot tell common words from rare ones (of one sentence every word is in
#: all sentences). A token in no candidate is weighed like one in a single candidate.
MIN_POOL = 20

#: Words that every question has whatever it is about. They neither choose a sentence nor count for
#: the share. English function and question words, and Chinese function characters.
_FUNCTION_WORDS = """
    a an the of to in on at by for from with about into as and or but nor not no than then so if
    is are was were be been being am do does did done has have had having will would shall should
    can could may might must i you he she it we they me him her us them my your his its our their
    mine yours hers ours theirs this that these those there here who whom whose what which when
    where why how s t d ll re ve m any some all each also just ever please tell say said
    的 了 是 在 吗 呢 吧 么 什 谁 哪 几 怎 样 为 何 有 和 与 或 也 都 就 这 那 个 们 我 你 他 她 它
    您 到 着 过 被 把 对 从 以 及 其 之 啊 请 问
"""
STOP = frozenset(_FUNCTION_WORDS.split())

#: An item is searched up to here, in characters. No memory of a conversation comes near it (a
#: thousand sessions are some ten times less); what is longer is a box that floods the host.
MAX_TEXT = 4_000_000

_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class QuestionView:
    """What an answerer may know of a question: its text, its moment, the options of a choice."""

    text: str
    time: str | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """An answer; ``item_rank`` is the 0-based rank of the item it was taken from, if of one."""

    text: str
    item_rank: int | None = None


#: Any answerer. A plain text is taken as an answer of no particular item.
AnswerFn = Callable[[QuestionView, RetrievalRecord], Answer | str]


class ExtractiveAnswerer:
    """Chooses a sentence. Deterministic: the same items and question, the same answer.

    Reads the first :data:`MAX_TEXT` characters of each item.
    """

    #: Stands in every table's title and in the manifest.
    id = f"extractive-bm25/1 (1 sentence, {MAX_TOKENS} tokens, share {MIN_SHARE})"

    def __call__(self, question: QuestionView, retrieval: RetrievalRecord) -> Answer:
        """Answer from the items given; best score, then the item's rank, then place in it."""
        wanted = content_tokens(question.text)
        pool = _pool(tuple(item.text[:MAX_TEXT] for item in retrieval.items))
        chosen = pool.best(wanted)
        if chosen is None:
            return Answer(NOT_MENTIONED)
        rank, sentence = chosen
        return Answer(shortened(sentence, set(wanted)), rank)


def content_tokens(question: str) -> list[str]:
    """A question's distinct tokens without function words; all of them if nothing else is left."""
    every = list(dict.fromkeys(tokens(question)))
    return [token for token in every if token not in STOP] or every


class _Pool:
    """The sentences of some texts, ready to be asked more than once."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self._sentences: list[tuple[int, str]] = []
        cut: list[list[str]] = []
        places: dict[str, list[int]] = {}
        for rank, text in enumerate(texts):
            for sentence in sentences(text):
                found = tokens(sentence)
                if not found:
                    continue
                for token in set(found):
                    places.setdefault(token, []).append(len(cut))
                self._sentences.append((rank, sentence))
                cut.append(found)
        self._places = {token: np.array(where) for token, where in places.items()}
        self._index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        if cut:
            self._index.index(cut, show_progress=False)

    def best(self, wanted: list[str]) -> tuple[int, str] | None:
        """Rank and text of the sentence that may answer and scores highest; the first of equals."""
        if not self._sentences or not wanted:
            return None
        may = self._shares(wanted) >= MIN_SHARE
        if not may.any():
            return None
        scores = np.where(may, self._index.get_scores(wanted), -1.0)
        return self._sentences[int(scores.argmax())]

    def _shares(self, wanted: list[str]) -> np.ndarray[Any, Any]:
        """For each sentence the share of the question's weight that it carries, in [0, 1]."""
        size = max(len(self._sentences), MIN_POOL)
        carried, total = np.zeros(len(self._sentences)), 0.0
        for token in wanted:
            where = self._places.get(token)
            found = len(where) if where is not None else 1
            weight = log(1 + (size - found + 0.5) / (found + 0.5))
            total += weight
            if where is not None:
                carried[where] += weight
        return carried / total


@lru_cache(maxsize=8)
def _pool(texts: tuple[str, ...]) -> _Pool:
    """A system that returns all it has returns the same to every question of a checkpoint."""
    return _Pool(texts)


def shortened(text: str, wanted: set[str]) -> str:
    """At most :data:`MAX_TOKENS` tokens of a sentence: the stretch with most of the question.

    Cuts between words (between characters where there are no spaces, as in Chinese); of equally
    good stretches the middle one, which has context on both sides. Takes time and memory in
    proportion to the text, whatever it is made of: a box may send many megabytes.
    """
    window, best = _Window(wanted), _Best()
    whole = True
    for piece in _pieces(text):
        while window.pieces and window.held + piece.size > MAX_TOKENS:
            best.offer(window)
            window.shrink()
            whole = False
        window.grow(piece)
    if whole:
        return text
    best.offer(window)
    first, last = best.middle()
    return text[first:last].strip()


class _Piece(NamedTuple):
    """A part of a text that is not cut in two: its place in the text and its tokens."""

    start: int
    end: int
    tokens: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.tokens)


class _Window:
    """Pieces in a row, moved along a text: how many tokens, how many different wanted ones."""

    def __init__(self, wanted: set[str]) -> None:
        self.pieces: deque[_Piece] = deque()
        self.held = 0
        self._left = dict.fromkeys(wanted, 0)
        self.hits = 0

    def grow(self, piece: _Piece) -> None:
        self.pieces.append(piece)
        self.held += piece.size
        for token in piece.tokens:
            if token in self._left:
                self._left[token] += 1
                self.hits += self._left[token] == 1

    def shrink(self) -> None:
        piece = self.pieces.popleft()
        self.held -= piece.size
        for token in piece.tokens:
            if token in self._left:
                self._left[token] -= 1
                self.hits -= self._left[token] == 0


class _Best:
    """The places of the windows with the most hits, packed: there can be millions of equals."""

    def __init__(self) -> None:
        self._hits = -1
        self._places = array("q")

    def offer(self, window: _Window) -> None:
        if window.hits > self._hits:
            self._hits, self._places = window.hits, array("q")
        if window.hits == self._hits:
            self._places.extend((window.pieces[0].start, window.pieces[-1].end))

    def middle(self) -> tuple[int, int]:
        """Start and end, in characters, of the middle one."""
        at = len(self._places) // 4 * 2
        return self._places[at], self._places[at + 1]


def _pieces(text: str) -> Iterator[_Piece]:
    """Words by spaces; a word of several tokens falls apart between them."""
    for word in _WORD.finditer(text):
        found = tuple(tokens(word.group()))
        if len(found) <= 1:
            yield _Piece(word.start(), word.end(), found)
        else:
            yield from _parts(text, word.start(), word.end())


def _parts(text: str, start: int, end: int) -> Iterator[_Piece]:
    """Cut a word wherever one more character begins a new token, so that none is cut in two.

    Tokens are counted from one character to the next. Characters that may melt with what stands
    before them (an accent) are looked at together with it, as one cluster.
    """
    begin = cluster = start
    before, inside = _Seen(0, False), _Seen(0, False)  # what was seen at the cluster, and up to now
    for place in range(start, end):
        if place - cluster >= _MAX_CLUSTER or not _melts(text[place]):
            cluster, before = place, inside
        seen = before.then(text[cluster : place + 1])
        if inside.number and seen.number > inside.number:
            yield _Piece(begin, place, tuple(tokens(text[begin:place])))
            begin = cluster = place
            before = _Seen(0, False)
            seen = before.then(text[place])
        inside = seen
    yield _Piece(begin, end, tuple(tokens(text[begin:end])))


#: More than Unicode's own limit for text that can be normalized as a stream (30 marks).
_MAX_CLUSTER = 32


class _Seen(NamedTuple):
    """How many tokens a text has, and whether a letter after it would belong to the last."""

    number: int
    open: bool

    def then(self, cluster: str) -> _Seen:
        """The same for the text with one more cluster."""
        more, is_open = _adds(cluster, self.open)
        return _Seen(self.number + more, is_open)


@lru_cache(maxsize=1 << 14)
def _adds(cluster: str, after_open: bool) -> tuple[int, bool]:
    """How many tokens a cluster begins after an open token or none; is one open after it?"""
    text = "a" + cluster if after_open else cluster
    count = len(tokens(text))
    return count - after_open, count > 0 and len(tokens(text + "a")) == count


@lru_cache(maxsize=1 << 14)
def _melts(character: str) -> bool:
    """May it change or be changed by the characters before it: marks, and Hangul's later parts."""
    first = unicodedata.normalize("NFKD", character)[0]
    return unicodedata.category(first)[0] == "M" or "\u1160" <= first <= "\u11ff"
