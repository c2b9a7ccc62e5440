"""One way to write a turn as the text of a memory, so that plain systems differ in memory only.

``[1:56 pm on 8 May, 2023] Caroline: I went to the group. [image: a dog on a beach]``: the date as
the data set writes it, the speaker's name (else the role), the text as it came, then the captions.
"""

from __future__ import annotations

from collections.abc import Sequence

from .records import Attachment, NormalizedTurn


def turn_text(
    turn: NormalizedTurn, *, date: bool = True, speaker: bool = True, captions: bool = True
) -> str:
    """The text of one turn, with what is asked for and known of its date, speaker and images."""
    parts = []
    when = (turn.timestamp or turn.time) if date else None
    if when:
        parts.append(f"[{when}]")
    if speaker:
        parts.append(f"{turn.name or turn.role}:")
    if turn.text:
        parts.append(turn.text)
    if captions:
        parts.extend(image_text(image) for image in turn.attachments)
    return " ".join(parts)


def image_text(image: Attachment) -> str:
    """``[image: a dog]``, with the image's id where the data set shows it ``[image I7: a dog]``."""
    label = f"image {image.image_id}" if image.image_id else "image"
    return f"[{label}: {image.caption}]" if image.caption else f"[{label}]"


def round_starts(turns: Sequence[NormalizedTurn]) -> list[int]:
    """Indices at which a round begins: the first turn, and each user turn after another role."""
    starts = []
    for i, turn in enumerate(turns):
        if i == 0 or (turn.role == "user" and turns[i - 1].role != "user"):
            starts.append(i)
    return starts
