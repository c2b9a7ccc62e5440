"""Cards pin what was loaded, and refuse by name what is not that."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from loader_bundles import POINTS, base

from harness.loaders import known_formats, open_dataset
from harness.loaders.cards import Card, card_of, counts_of, read_card, shipped_cards
from harness.outcomes import DataError

ROOT = Path(__file__).resolve().parents[2]


def pin(folder: Path, card_path: Path, **fields: object) -> None:
    """Write the card that pins a folder as it is, then change fields of it."""
    dataset = open_dataset(folder)
    card = {
        "card": 1,
        "kind": "dataset",
        "name": "vans",
        "format": dataset.format,
        "summary": "three sessions about a van",
        "source": "our own",
        "licence": "Apache-2.0",
        "sha256": dataset.sha256,
        "content_sha256": dataset.content_sha256,
        "counts": counts_of(dataset.balance).model_dump(),
        "verified": "run",
    }
    card_path.write_text(yaml.safe_dump(card | fields), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return base().write(tmp_path / "vans")


@pytest.mark.parametrize("place", ["vans/card.yaml", "vans.yaml"])
def test_a_pinned_folder_opens(folder: Path, place: str) -> None:
    pin(folder, folder.parent / place)
    assert open_dataset(folder).balance.warnings == ()
    card = card_of(folder)
    assert card is not None and card.name == "vans"


def test_other_bytes_of_the_same_content_are_a_warning(folder: Path) -> None:
    pin(folder, folder / "card.yaml")
    path = folder / POINTS
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    (warning,) = open_dataset(folder).balance.warnings
    assert "the bytes differ from those of card 'vans'" in warning


def test_other_content_is_refused(folder: Path) -> None:
    pin(folder, folder / "card.yaml")
    path = folder / POINTS
    path.write_bytes(path.read_bytes().replace(b"boat", b"ship"))
    with pytest.raises(DataError, match="'vans' is not what its card 'vans' pins: the content"):
        open_dataset(folder)


@pytest.mark.parametrize("name", ["turns", "gold_points", "questions", "samples"])
def test_another_count_is_refused_by_name(folder: Path, name: str) -> None:
    pin(folder, folder / "card.yaml", counts={name: 99})
    with pytest.raises(DataError, match=f"{name}: .* the card says 99"):
        open_dataset(folder)


def test_another_format_is_refused(folder: Path) -> None:
    pin(folder, folder / "card.yaml", format="locomo")
    with pytest.raises(DataError, match="the card says locomo"):
        open_dataset(folder)


def test_what_nobody_has_seen_is_not_checked(folder: Path) -> None:
    pin(folder, folder / "card.yaml", sha256="unknown", content_sha256="unknown", counts={})
    assert open_dataset(folder).balance.samples == 1


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"sha256": "abc"}, "sha256"),
        ({"colour": "red"}, "colour"),
        ({"kind": "poem"}, "kind"),
        ({"counts": {"people": 3}}, "people"),
    ],
)
def test_a_card_with_a_fault_is_refused(folder: Path, fields: dict[str, object], says: str) -> None:
    pin(folder, folder / "card.yaml", **fields)
    with pytest.raises(DataError, match=says):
        open_dataset(folder)


def test_a_neighbour_that_is_no_card_is_left_alone(folder: Path) -> None:
    (folder.parent / "vans.yaml").write_text("compose: true\n", encoding="utf-8")
    assert card_of(folder) is None
    assert open_dataset(folder).balance.samples == 1


def test_every_format_has_its_card() -> None:
    cards = {c.format: c for c in shipped_cards().values() if c.kind == "format"}
    assert set(cards) == {module.ID for module in known_formats()}
    assert "not yet run on the real files" in cards["worldmemarena"].verified


@pytest.mark.parametrize("path", sorted((ROOT / "datasets").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_shipped_card_is_valid(path: Path) -> None:
    assert isinstance(read_card(path), Card)


def test_the_shipped_sample_set_is_what_its_card_pins() -> None:
    folder = ROOT / "datasets" / "sample"
    card = card_of(folder)
    assert card is not None
    dataset = open_dataset(folder)
    assert card.content_sha256 == dataset.content_sha256
    assert card.counts == counts_of(dataset.balance)
    assert dataset.balance.warnings == () and dataset.balance.left_out == ()


BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 8)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("card: 1\n" + BOMB, r"card\.yaml:2: anchors and aliases"),
        ("&a [*a]\n", r"card\.yaml:1: anchors and aliases"),
        ("card: *x\n", r"card\.yaml:1: anchors and aliases"),
        ("[" * 20_000, r"card\.yaml:1: nested deeper"),
        ("{a: " * 20_000, r"card\.yaml:1: nested deeper"),
    ],
)
def test_a_card_that_would_blow_up_is_refused_with_file_and_line(
    text: str, said: str, folder: Path
) -> None:
    (folder / "card.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=said):
        open_dataset(folder)


@pytest.mark.parametrize(
    "text", ["[" * 20_000, "&a [*a]", "card: business\n", BOMB, "a: [", "card: 1\nb: ["]
)
def test_a_file_beside_the_folder_that_is_no_card_does_not_matter(text: str, folder: Path) -> None:
    (folder.parent / "vans.yaml").write_text(text, encoding="utf-8")
    assert card_of(folder) is None
    open_dataset(folder)


def test_a_broken_card_beside_the_folder_is_a_card(folder: Path) -> None:
    (folder.parent / "vans.yaml").write_text("card: 1\nkind: dataset\nname: [", encoding="utf-8")
    with pytest.raises(DataError, match=r"vans\.yaml:\d: is not YAML"):
        open_dataset(folder)
