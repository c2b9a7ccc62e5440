"""One way to cut text into tokens, for BM25 in boxes and for answering and judging on the host.

NFKC-folded and case-folded; words of letters and digits, punctuation is no part of any; every CJK
character is a token of its own, so that Chinese needs no segmenter.
"""

from __future__ import annotations

import re
import unicodedata

_CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3040-\u30ff\uac00-\ud7af"
_TOKEN = re.compile(f"[{_CJK}]|[^\\W_{_CJK}]+", re.UNICODE)


def fold(text: str) -> str:
    """NFKC, then casefold. Lengths may change."""
    return unicodedata.normalize("NFKC", text).casefold()


def tokens(text: str) -> list[str]:
    """The tokens of a text, in order, folded."""
    return _TOKEN.findall(fold(text))


_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


def sentences(text: str) -> list[str]:
    """The sentences of a text, stripped, none empty: cut after ``.!?`` and ``。！？``, at lines."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part and part.strip()]
