"""Images of turns and questions: captions, ids and files inside the data folder.

Nothing is fetched, and no file outside the data folder is opened, however a path is written. An
image whose file cannot be used keeps its caption, with a warning.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.loaders.fields import json_type, read_label, read_list, read_soft_id
from harness.loaders.findings import At, Findings
from harness.samples import Image

#: A larger file would not fit on one line of the pipe (64 MiB, in base64) beside other images.
MAX_IMAGE_BYTES = 20 * 1024 * 1024

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_LFS = b"version https://git-lfs"
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)
_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff")
_IMAGE_TYPES = frozenset({"image", "image_caption"})


class Unusable(Exception):
    """Why a file is not used; the text is for the warning."""


@dataclass(frozen=True)
class ImageFolder:
    """Looks files up: paths are relative to ``base`` and may not leave ``root``."""

    root: Path
    base: Path

    def find(self, written: str) -> tuple[Path, str]:
        """The file and its media type.

        Raises:
            Unusable: an address, an absolute path, a path or link out of the data folder, no file,
                too large, or not an image by its first bytes.
        """
        inside = self._inside(written)
        try:
            info = inside.stat()
        except OSError:
            raise Unusable("no such file") from None
        if not stat.S_ISREG(info.st_mode):
            raise Unusable("not a regular file")
        if info.st_size == 0:
            raise Unusable("the file is empty")
        if info.st_size > MAX_IMAGE_BYTES:
            raise Unusable(f"larger than {MAX_IMAGE_BYTES} bytes")
        try:
            with inside.open("rb") as stream:
                head = stream.read(64)
        except OSError as error:
            raise Unusable(f"cannot be read: {error.strerror}") from None
        return inside, _media_type(head)

    def _inside(self, written: str) -> Path:
        if _URL.match(written) or written.startswith("//"):
            raise Unusable("an address or a path with a drive; nothing is fetched")
        if "\x00" in written:
            raise Unusable("holds a NUL")
        if written.startswith(("/", "\\", "~")):
            raise Unusable("an absolute path")
        root = self.root.resolve()
        lexical = Path(os.path.normpath(self.base.resolve() / written))
        if not lexical.is_relative_to(root):
            raise Unusable("leaves the data folder")
        try:
            resolved = lexical.resolve()
        except (OSError, RuntimeError):  # a loop of links
            raise Unusable("cannot be resolved") from None
        if not resolved.is_relative_to(root):
            raise Unusable("a link that leaves the data folder")
        return resolved


def _media_type(head: bytes) -> str:
    if head.startswith(_LFS):
        raise Unusable("a Git LFS pointer, not the image itself (run git lfs pull)")
    for magic, media_type in _MAGIC:
        if head.startswith(magic):
            return media_type
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    raise Unusable("not an image by its first bytes")


@dataclass
class ImageReader:
    """Reads the attachments of one sample; remembers which ids it has seen."""

    findings: Findings
    folder: ImageFolder
    sample_id: str
    show_ids: bool = True
    _seen: dict[str, tuple[str | None, Path | None]] = field(default_factory=dict)

    def read(self, at: At, value: Any, counter: str) -> tuple[Image, ...]:
        """The images of a turn or question; each one read is counted under ``counter``."""
        made = []
        entries = read_list(self.findings, at, value, or_one=True)
        for position, entry in enumerate(entries):
            place = at.child(position) if isinstance(value, list) else at
            self.findings.counts[counter] += 1
            image = self._one(place, entry, counter)
            if image is not None:
                made.append(image)
        return tuple(made)

    def leave_out(self, at: At, counter: str, reason: str) -> None:
        """Count an image that cannot be used at all."""
        self.findings.counts[counter] += 1
        self.findings.leave_out(_WHAT[counter], at, reason)

    def _one(self, at: At, entry: Any, counter: str) -> Image | None:
        if isinstance(entry, str) and entry.strip():
            is_path = entry.strip().lower().endswith(_SUFFIXES) or "://" in entry
            self.findings.warn(
                "attachment is text", at, f"text, read as a {'path' if is_path else 'caption'}"
            )
            entry = {"file_path" if is_path else "caption": entry}
        if not isinstance(entry, dict):
            self.findings.leave_out(_WHAT[counter], at, f"{json_type(entry)}, expected an object")
            return None
        caption = read_label(self.findings, at.child("caption"), entry.get("caption"))
        image_id = read_soft_id(
            self.findings, at.child("image_id"), entry.get("image_id"), "image_id"
        )
        path, media_type = self._file(at, entry, image_id)
        if caption is None and path is None:
            if image_id is None:
                reason = "neither caption, id nor usable file"
                self.findings.leave_out(_WHAT[counter], at, reason)
                return None
            self.findings.warn("image without content", at, "nothing but an id to show")
        if image_id is not None:
            self._remember(at, image_id, caption, path)
        return Image(
            caption=caption,
            image_id=image_id,
            shown_id=image_id if self.show_ids else None,
            path=path,
            media_type=media_type,
            type=self._type(at, entry.get("type")),
        )

    def _type(self, at: At, value: Any) -> str:
        text = read_label(self.findings, at.child("type"), value)
        return "image" if text is None or text in _IMAGE_TYPES else text

    def _file(
        self, at: At, entry: dict[str, Any], image_id: str | None
    ) -> tuple[Path | None, str | None]:
        key = "file_path" if entry.get("file_path") else "image_path"
        written = entry.get(key)
        place = at.child(key)
        other = entry.get("image_path")
        if key == "file_path" and other and other != written:
            self.findings.warn(
                "two paths", at, "file_path and image_path differ; file_path is used"
            )
        if written is None or (isinstance(written, str) and not written.strip()):
            return self._legacy_file(image_id)
        if not isinstance(written, str):
            message = f"{json_type(written)}, expected a path; caption only"
            self.findings.warn("image file not usable", place, message)
            return None, None
        try:
            return self.folder.find(written)
        except Unusable as reason:
            message = f"{written!r}: {reason}; caption only"
            self.findings.warn("image file not usable", place, message)
            return None, None

    def _legacy_file(self, image_id: str | None) -> tuple[Path | None, str | None]:
        """The older layout without paths: ``images/<sample>/<image_id>.png``, if it is there."""
        if image_id is None:
            return None, None
        try:
            return self.folder.find(f"images/{self.sample_id}/{image_id}.png")
        except Unusable:
            return None, None

    def _remember(self, at: At, image_id: str, caption: str | None, path: Path | None) -> None:
        shown = (caption, path)
        if self._seen.setdefault(image_id, shown) != shown:
            message = f"image_id {image_id!r} names two different images; evidence is met by either"
            self.findings.warn("image id used twice", at, message)


_WHAT = {"attachments": "attachment", "question_attachments": "question attachment"}
