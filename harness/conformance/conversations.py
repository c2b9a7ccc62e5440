"""The small conversations that the suite feeds. Fixed: a check means the same thing every day.

Every fact has a made-up word of its own, so that finding the word means finding the fact.
"""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass, replace

from harness.adapter.records import Attachment, NormalizedTurn, Query

#: Dates of the sessions as data sets write them, with the same as ISO 8601.
DATES = {
    "S01": ("9:41 am on 23 November, 2019", "2019-11-23T09:41:00"),
    "S02": ("7:05 pm on 2 December, 2019", "2019-12-02T19:05:00"),
    "S03": ("11:30 am on 14 February, 2020", "2020-02-14T11:30:00"),
}

#: Ways in which a system may write the date of S01, folded.
FIRST_DATE_FORMS = (
    "23 november",
    "november 23",
    "2019-11-23",
    "2019/11/23",
    "23.11.2019",
    "11/23/2019",
    "2019年11月23日",
)


@dataclass(frozen=True)
class Conversation:
    """Sessions (id, turns) in order, and what is asked after the last one."""

    sessions: tuple[tuple[str, tuple[NormalizedTurn, ...]], ...]
    questions: tuple[Query, ...]

    @property
    def turn_ids(self) -> set[str]:
        """All ids that may stand as a source: turns and sessions."""
        turns = {turn.turn_id for _, batch in self.sessions for turn in batch}
        return turns | {session_id for session_id, _ in self.sessions}


def _said(
    session_id: str, index: int, role: str, name: str, text: str, *images: Attachment
) -> NormalizedTurn:
    raw, iso = DATES[session_id]
    return NormalizedTurn(
        "s0001", session_id, index, role, text, name, raw, iso, attachments=tuple(images)
    )


def png(shade: int) -> str:
    """A real 8x8 grey PNG in base64, darker or lighter by ``shade`` (0 to 255)."""
    rows = b"".join(b"\x00" + bytes([shade]) * 8 for _ in range(8))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode("ascii")


#: An image with a caption and a file.
PICTURE = Attachment(caption="a quillomatic on a table", media_type="image/png", data=png(90))

#: Two speakers, three days, an update, an image, hearsay, a word said often and one said once.
FIRST = Conversation(
    sessions=(
        (
            "S01",
            (
                _said("S01", 0, "user", "Marlow", "I bought a velotrope. The velotrope is red."),
                _said("S01", 1, "assistant", "Teska", "Nice. Where will you keep the velotrope?"),
                _said("S01", 2, "user", "Marlow", "In the shed, next to the old boat."),
                _said("S01", 3, "assistant", "Teska", "Sounds dry enough.", PICTURE),
                _said("S01", 4, "user", "Marlow", "Please remember: my locker number is 4417."),
            ),
        ),
        (
            "S02",
            (
                _said("S02", 0, "user", "Marlow", "I work as a baker at Pellimore."),
                _said("S02", 1, "assistant", "Teska", "Baker is hard work. I teach physics."),
                _said("S02", 2, "user", "Marlow", "我喜欢喝绿茶，不喜欢咖啡。"),
                _said("S02", 3, "user", "Marlow", "My locker number has changed: it is 5520 now."),
            ),
        ),
        (
            "S03",
            (
                _said("S03", 0, "user", "Marlow", "I left Pellimore and work at Oskarine now."),
                _said("S03", 1, "assistant", "Teska", "Good luck at Oskarine, you will do well!"),
                _said("S03", 2, "user", "Marlow", "The velotrope is sold, the shed is empty."),
                _said(
                    "S03", 3, "user", "Marlow", "A stranger said that their locker number is 88."
                ),
            ),
        ),
    ),
    questions=(
        Query("Where does Marlow work?", "2020-02-14T11:30:00"),
        Query("What colour is the velotrope, and where is the velotrope kept?"),
        Query("What happened on 23 November 2019?"),
        Query("Marlow 喜欢喝什么？"),
        Query("What is my locker number?"),
    ),
)

#: Another sample: no word of it is in :data:`FIRST`'s facts.
SECOND = Conversation(
    sessions=(
        (
            "S01",
            (
                _said("S01", 0, "user", "Ilvo", "My dog is called Brackenby."),
                _said("S01", 1, "assistant", "Runa", "Brackenby is a fine name for a dog."),
            ),
        ),
        (
            "S02",
            (
                _said("S02", 0, "user", "Ilvo", "We moved from Tarnholt to Ulverey."),
                _said("S02", 1, "assistant", "Runa", "Does Brackenby like Ulverey?"),
            ),
        ),
    ),
    questions=(Query("What is the dog called?"), Query("Where does Ilvo live now?")),
)

#: A word that must be gone after a reset.
MARKER = "zorblequist"
MARKED = Conversation(
    sessions=(
        (
            "S01",
            (_said("S01", 0, "user", "Zed", f"Remember the secret word {MARKER}: it is mine."),),
        ),
    ),
    questions=(Query(f"What is the secret word {MARKER}?"),),
)

#: Text that careless code breaks: name -> the text, none with NUL.
UNICODE = {
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈",
    "right-to-left": "שלום مرحبا",
    "combining": "e\u0301\u0323 o\u0308",
    "zero-width": "a\u200bb\u200dc\ufeffd",
    "beyond the basic plane": "𠮷野家𝔘",
    "quotes and escapes": "\"'\\n\\u0041{}</s>",
    "line ends": "one\ntwo\u2028three\r\nfour",
}


def unicode_conversation() -> Conversation:
    """One turn for each text, between two anchors of plain letters."""
    turns = tuple(
        _said("S01", i, "user", "Ana", f"anchor{i}x {text} anchor{i}y")
        for i, text in enumerate(UNICODE.values())
    )
    return Conversation((("S01", turns),), (Query("What is at anchor0x 👩‍👩‍👧‍👦 שלום?"),))


LARGE_CHARACTERS = 5_000_000


def large_conversation() -> Conversation:
    """A turn of 5 MB, then a small one, to see that the box lives on."""
    words = " ".join(f"w{i:06d}" for i in range(LARGE_CHARACTERS // 8))
    return Conversation(
        (
            ("S01", (_said("S01", 0, "user", "Ana", words),)),
            ("S02", (_said("S02", 0, "user", "Ana", "My cat is called Fennimore."),)),
        ),
        (Query("What is the cat called?"),),
    )


def without(conversation: Conversation, *fields: str) -> Conversation:
    """The same conversation without a field of its turns (``name``, ``attachments``, ...)."""
    bare = {"name": None, "timestamp": None, "time": None, "attachments": ()}
    gone = {field: bare[field] for field in fields}
    sessions = tuple(
        (session_id, tuple(replace(turn, **gone) for turn in turns))  # type: ignore[arg-type]
        for session_id, turns in conversation.sessions
    )
    return replace(conversation, sessions=sessions)
