"""Faults of images."""

from __future__ import annotations

from fault_tools import (
    Case,
    do,
    left,
    put,
    qa,
    question,
    the_sample,
    turn,
)
from loader_bundles import png

IMAGES = [
    Case(
        "image_file",
        do(
            lambda b: b.more.update({"images/v.png": png()}),
            lambda b: b.attach([{"caption": "van", "image_id": "i1", "file_path": "images/v.png"}]),
        ),
        "accept",
        (),
        lambda s, d: (
            turn(s).images[0].path is not None
            and turn(s).images[0].media_type == "image/png"
            and turn(s).images[0].shown_id == "i1"
        ),
    ),
    Case(
        "image_old_name",
        do(
            lambda b: b.more.update({"v.png": png()}),
            lambda b: b.attach([{"caption": "van", "image_path": "v.png"}]),
        ),
        "accept",
        (),
        lambda s, d: turn(s).images[0].path is not None,
    ),
    Case(
        "image_by_layout",
        do(
            lambda b: b.more.update({"images/w1/i1.png": png()}),
            lambda b: b.attach([{"image_id": "i1"}]),
        ),
        "accept",
        (),
        lambda s, d: turn(s).images[0].path is not None,
    ),
    Case(
        "image_ids_hidden",
        do(
            put(the_sample, show_image_ids=False),
            lambda b: b.attach([{"caption": "van", "image_id": "i1"}]),
        ),
        "accept",
        (),
        lambda s, d: (turn(s).images[0].image_id, turn(s).images[0].shown_id) == ("i1", None),
    ),
    Case(
        "attachment_texts",
        lambda b: b.attach(["a green van", "x/missing.jpg"]),
        "warning",
        ("read as a caption", "read as a path"),
        lambda s, d: (
            turn(s).images[0].caption == "a green van"
            and (d.balance.attachments, left(d, "attachment")) == (2, 1)
        ),
    ),
    Case(
        "attachment_null_entry",
        lambda b: b.attach([None]),
        "warning",
        ("null",),
        lambda s, d: (d.balance.attachments, left(d, "attachment")) == (1, 1),
    ),
    Case("attachment_number", lambda b: b.attach(4), "fatal", ("attachments", "a number")),
    Case(
        "caption_null",
        lambda b: b.attach([{"caption": None, "image_id": "i1"}]),
        "warning",
        ("nothing but an id",),
        lambda s, d: turn(s).images[0].caption is None,
    ),
    Case(
        "caption_missing",
        lambda b: b.attach([{"type": "image_caption"}]),
        "warning",
        ("neither caption",),
        lambda s, d: left(d, "attachment") == 1,
    ),
    Case(
        "caption_number",
        lambda b: b.attach([{"caption": 3}]),
        "warning",
        ("caption",),
        lambda s, d: turn(s).images[0].caption == "3",
    ),
    *(
        Case(
            f"path_{name}",
            do(
                lambda b, content=content: b.more.update(
                    {"v.png": content} if content is not None else {}
                ),
                lambda b, path=path: b.attach([{"caption": "van", "file_path": path}]),
            ),
            "warning",
            (says, "caption only"),
            lambda s, d: turn(s).images[0].path is None and turn(s).images[0].caption == "van",
        )
        for name, path, content, says in (
            ("missing", "images/none.png", None, "no such file"),
            ("up", "../secret.png", None, "leaves the data folder"),
            ("deep_up", "a/b/../../../../etc/passwd", None, "leaves the data folder"),
            ("absolute", "/etc/hostname", None, "an absolute path"),
            ("home", "~/x.png", None, "an absolute path"),
            ("drive", "C:\\x.png", None, "an address or a path with a drive"),
            ("file_url", "file:///etc/hostname", None, "an address"),
            ("data_url", "data:image/png;base64,AA==", None, "an address"),
            ("nul", "v\x00.png", None, "NUL"),
            ("too_long", "x" * 5000 + ".png", None, "no such file"),
            ("folder", ".", None, "not a regular file"),
            ("zero_bytes", "v.png", b"", "the file is empty"),
            ("not_an_image", "v.png", b"<html></html>", "not an image"),
            ("number", 7, None, "a number"),
        )
    ),
    Case(
        "inner_dots",
        do(
            lambda b: b.more.update({"a/v.png": png()}),
            lambda b: b.attach([{"caption": "van", "file_path": "a/../a/v.png"}]),
        ),
        "accept",
        (),
        lambda s, d: turn(s).images[0].path is not None,
    ),
    Case(
        "same_image_again",
        do(
            lambda b: b.attach([{"caption": "v", "image_id": "i"}], 0),
            lambda b: b.attach([{"caption": "v", "image_id": "i"}], 1),
        ),
        "accept",
        (),
        lambda s, d: d.balance.attachments == 2,
    ),
    Case(
        "image_on_question",
        put(qa, attachments=[{"caption": "a van"}]),
        "accept",
        (),
        lambda s, d: (
            question(s).images[0].caption == "a van"
            and (d.balance.attachments, d.balance.question_attachments) == (0, 1)
        ),
    ),
    Case(
        "image_id_number",
        lambda b: b.attach([{"caption": "v", "image_id": 5}]),
        "warning",
        ("image_id",),
        lambda s, d: turn(s).images[0].image_id == "5",
    ),
]
