"""Drawn data: conversations made by a seeded generator, with a key for every point and question.

Their use is that everything about them is known. Facts are a thing and a number ("my harbour locker
code is 4126"), stated in one fixed sentence form each, so that a simple memory can understand them
and a test can say in advance what any loss must cost. Gold numbers are even and occur once in a
conversation: an odd number is nobody's fact.

A conversation has ``facts`` facts. The first half of its sessions states them, one after another;
the second half states the changes of the first ``updates`` of them. Hearsay (a stranger's number,
never asked about) is spread over all sessions. After the first half a checkpoint asks for every
fact; at the end another asks for the changed facts, for those that stayed, and for things that were
never mentioned. Every other conversation is in Chinese.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from harness.samples import (
    AnswerKind,
    Balance,
    Checkpoint,
    Evidence,
    EvidenceKind,
    GoldPoint,
    Key,
    PointKeys,
    PointKind,
    Question,
    QuestionKeys,
    Sample,
    Session,
    Turn,
)

#: Counts up when the same shape and seed give other data.
VERSION = 1

_PLACES_EN = """
    harbour orchard tower garden library station canal market river museum
    bakery stadium school office cottage studio cellar attic terrace chapel
"""
_THINGS_EN = """
    locker code, parking space, membership number, desk number, shelf number, gate code,
    mailbox number, ticket number, cabinet code, account number, bicycle number, key number
"""
_PLACES_ZH = """
    港口 果园 塔楼 花园 图书馆 车站 运河 市场 河边 博物馆
    面包店 体育场 学校 办公室 小屋 画室 地窖 阁楼 露台 教堂
"""
_THINGS_ZH = """
    储物柜密码 停车位号码 会员编号 书桌编号 书架编号 大门密码
    邮箱编号 票据编号 柜子密码 账户编号 单车编号 钥匙编号
"""
#: Language -> every thing that a conversation can name.
_NAMES = {
    "en": [
        f"{place} {thing.strip()}"
        for place in _PLACES_EN.split()
        for thing in _THINGS_EN.split(",")
    ],
    "zh": [place + thing for place in _PLACES_ZH.split() for thing in _THINGS_ZH.split()],
}
_FORMS = {
    "en": {
        "new": "Please remember: my {what} is {value}.",
        "change": "My {what} has changed: it is {value} now.",
        "hearsay": "A stranger said that their {what} is {value}.",
        "ask": ("What is my {what}?", "Do you remember my {what}?"),
        "reply": "Noted, thank you.",
        "fact": "The user's {what} is {value}.",
        "rumour": "A stranger's {what} is {value}.",
        "refusal": "not mentioned",
    },
    "zh": {
        "new": "请记住：我的{what}是{value}。",
        "change": "我的{what}变了：现在是{value}。",
        "hearsay": "有个陌生人说他的{what}是{value}。",
        "ask": ("我的{what}是多少？", "你记得我的{what}吗？"),
        "reply": "好的，记下了。",
        "fact": "用户的{what}是{value}。",
        "rumour": "陌生人的{what}是{value}。",
        "refusal": "not mentioned",
    },
}


@dataclass(frozen=True)
class Shape:
    """How much of everything one drawn data set holds.

    ``facts``, ``updates`` (at most ``facts``), ``hearsay`` and ``refusals`` are counts a
    conversation; ``asked`` is how many of the facts each checkpoint asks for (None: all of them,
    the changed ones first); ``sessions`` is even, the first half for facts and the second for
    changes (one session is all facts and no update).
    """

    conversations: int = 20
    sessions: int = 4
    facts: int = 10
    updates: int = 5
    hearsay: int = 5
    refusals: int = 2
    asked: int | None = None

    def __post_init__(self) -> None:
        names = len(_NAMES["en"])
        if self.updates > self.facts:
            raise ValueError("more updates than facts")
        if self.facts + self.hearsay + self.refusals > names:
            raise ValueError(f"a conversation can name {names} things")
        if self.sessions != 1 and self.sessions % 2:
            raise ValueError("sessions must be 1 or even")
        if self.sessions == 1 and self.updates:
            raise ValueError("updates need a second session")


@dataclass(frozen=True)
class _Fact:
    """A thing with its number, the number after the change, and where each is said."""

    name: str
    what: str
    value: int
    session: int
    changed: int | None = None
    changed_in: int | None = None


class DrawnDataset:
    """A :class:`harness.samples.Dataset` that is made, not read; one sample in memory at a time."""

    format = "drawn"

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        self.shape, self.seed = shape, seed
        self.name = f"drawn-{shape.conversations}x{shape.facts}-{seed}"

    @property
    def sample_ids(self) -> tuple[str, ...]:
        """The ids in order."""
        return tuple(f"drawn_{place:05d}" for place in range(self.shape.conversations))

    @property
    def sha256(self) -> str:
        """There are no bytes: the hash of the generator's version, the shape and the seed."""
        recipe = {"generator": VERSION, "seed": self.seed, **asdict(self.shape)}
        return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()

    @cached_property
    def content_sha256(self) -> str:
        """Hash of the samples."""
        digest = hashlib.sha256()
        for sample in self:
            digest.update(json.dumps(asdict(sample), sort_keys=True).encode())
        return digest.hexdigest()

    @cached_property
    def balance(self) -> Balance:
        """Counted, not computed."""
        counts = dict.fromkeys(("samples", "sessions", "turns", "gold", "checkpoints", "asked"), 0)
        for sample in self:
            counts["samples"] += 1
            counts["sessions"] += len(sample.sessions)
            counts["turns"] += sum(len(session.turns) for session in sample.sessions)
            counts["gold"] += len(sample.points)
            counts["checkpoints"] += len(sample.checkpoints)
            counts["asked"] += sum(len(cp.questions) for cp in sample.checkpoints)
        return Balance(
            samples=counts["samples"],
            sessions=counts["sessions"],
            turns=counts["turns"],
            gold_points=counts["gold"],
            checkpoints=counts["checkpoints"],
            questions=counts["asked"],
        )

    def sample(self, sample_id: str) -> Sample:
        """Draw one sample.

        Raises:
            KeyError: there is none of that id.
        """
        if sample_id not in self._places:
            raise KeyError(sample_id)
        place = self._places[sample_id]
        language = "zh" if place % 2 else "en"
        return _Conversation(self.shape, language, f"{self.seed}:{place}").sample(
            sample_id, self.name
        )

    @cached_property
    def _places(self) -> dict[str, int]:
        return {sample_id: place for place, sample_id in enumerate(self.sample_ids)}

    def __iter__(self) -> Iterator[Sample]:
        return (self.sample(sample_id) for sample_id in self.sample_ids)


class _Conversation:
    """Draws one conversation."""

    def __init__(self, shape: Shape, language: str, seed: str) -> None:
        self.shape = shape
        self.forms = _FORMS[language]
        self.random = random.Random(seed)
        needed = shape.facts + shape.hearsay + shape.refusals
        self.names = self.random.sample(_NAMES[language], needed)
        # Four digits and even; a wrong copy is one higher, so odd and nobody's.
        self.numbers = iter(self.random.sample(range(1000, 10_000, 2), needed + shape.updates))
        self.facts = self._draw_facts()
        self.rumours = self._draw_rumours()
        self.unknown = self.names[shape.facts + shape.hearsay :]

    @property
    def half(self) -> int:
        """How many sessions state facts."""
        return max(1, self.shape.sessions // 2)

    def _draw_facts(self) -> list[_Fact]:
        made = []
        for place, what in enumerate(self.names[: self.shape.facts]):
            changes = place < self.shape.updates
            later = self.half + place % max(1, self.shape.sessions - self.half)
            made.append(
                _Fact(
                    name=f"f{place:03d}",
                    what=what,
                    value=next(self.numbers),
                    session=place % self.half,
                    changed=next(self.numbers) if changes else None,
                    changed_in=later if changes else None,
                )
            )
        return made

    def _draw_rumours(self) -> list[_Fact]:
        names = self.names[self.shape.facts : self.shape.facts + self.shape.hearsay]
        return [
            _Fact(f"h{i:03d}", what, next(self.numbers), i % self.shape.sessions)
            for i, what in enumerate(names)
        ]

    # -- what is said -----------------------------------------------------------------------

    def sample(self, sample_id: str, dataset: str) -> Sample:
        said: list[list[tuple[str, GoldPoint]]] = [[] for _ in range(self.shape.sessions)]
        for fact in self.facts:
            said[fact.session].append((self._say("new", fact), self._new(fact)))
            if fact.changed_in is not None:
                said[fact.changed_in].append((self._say("change", fact), self._update(fact)))
        for rumour in self.rumours:
            said[rumour.session].append((self._say("hearsay", rumour), self._rumour(rumour)))
        sessions, points = [], []
        for position, entries in enumerate(said):
            self.random.shuffle(entries)
            sessions.append(self._session(position, [text for text, _ in entries]))
            points += [point for _, point in entries]
        return Sample(
            id=sample_id,
            dataset=dataset,
            sessions=tuple(sessions),
            points=tuple(points),
            checkpoints=tuple(self._checkpoints()),
            uuid=sample_id,
            labels={"synthetic": True},
        )

    def _say(self, kind: str, fact: _Fact) -> str:
        value = fact.changed if kind == "change" else fact.value
        return self._form(kind).format(what=fact.what, value=value)

    def _form(self, kind: str) -> str:
        form = self.forms[kind]
        return form if isinstance(form, str) else self.random.choice(form)

    def _session(self, position: int, texts: Sequence[str]) -> Session:
        day = f"2026-01-{position + 1:02d}"
        spoken = [("user", text) for text in texts] + [("assistant", self._form("reply"))]
        turns = tuple(
            Turn(
                index=index,
                role=role,
                text=text,
                timestamp=f"{day}T09:{index % 60:02d}:00",
                time=f"{day}T09:{index % 60:02d}:00",
            )
            for index, (role, text) in enumerate(spoken)
        )
        return Session(id=_session_id(position), position=position, turns=turns, date=turns[0].time)

    # -- gold -------------------------------------------------------------------------------

    def _fact_text(self, what: str, value: int | None, form: str = "fact") -> str:
        return self._form(form).format(what=what, value=value)

    def _new(self, fact: _Fact) -> GoldPoint:
        return GoldPoint(
            id=fact.name,
            session_id=_session_id(fact.session),
            text=self._fact_text(fact.what, fact.value),
            kind=PointKind.NEW,
            labels={"memory_source": "normal"},
            keys=PointKeys(must=_keys(fact.what, fact.value)),
        )

    def _update(self, fact: _Fact) -> GoldPoint:
        assert fact.changed_in is not None
        return GoldPoint(
            id=f"{fact.name}u",
            session_id=_session_id(fact.changed_in),
            text=self._fact_text(fact.what, fact.changed),
            kind=PointKind.UPDATE,
            labels={"memory_source": "normal"},
            originals=(self._fact_text(fact.what, fact.value),),
            keys=PointKeys(must=_keys(fact.what, fact.changed), gone=_keys(fact.what, fact.value)),
        )

    def _rumour(self, rumour: _Fact) -> GoldPoint:
        return GoldPoint(
            id=rumour.name,
            session_id=_session_id(rumour.session),
            text=self._fact_text(rumour.what, rumour.value, "rumour"),
            kind=PointKind.INTERFERENCE,
            labels={"memory_source": "interference"},
            keys=PointKeys(must=_keys(rumour.what, rumour.value)),
        )

    def _checkpoints(self) -> Iterator[Checkpoint]:
        asked = self.facts[: self.shape.asked]
        first = [self._ask(fact.what, fact.value, [fact.name], []) for fact in asked]
        yield self._checkpoint("cp1", self.half - 1, first)
        if self.shape.sessions == 1:
            return
        last = []
        for fact in asked:
            cites = [fact.name, f"{fact.name}u"] if fact.changed else [fact.name]
            old = [fact.value] if fact.changed else []
            last.append(self._ask(fact.what, fact.changed or fact.value, cites, old))
        last += [self._ask(what, None, [], []) for what in self.unknown]
        yield self._checkpoint("cp2", self.shape.sessions - 1, last)

    def _ask(self, what: str, value: int | None, cites: list[str], old: list[int]) -> Question:
        """``value`` None: the right answer is that it was not mentioned."""
        banned = [number for v in ([value] if value else []) + old for number in (v + 1, v)]
        forbidden = tuple(Key((str(number),)) for number in banned if number != value)
        refusal = self._form("refusal")
        right = Key((str(value),)) if value else Key((refusal,))
        return Question(
            id="",
            position=0,
            text=self._form("ask").format(what=what),
            answer_kind=AnswerKind.TEXT if value else AnswerKind.REFUSAL,
            answers=(str(value) if value else refusal,),
            evidence=tuple(Evidence(EvidenceKind.POINT, name) for name in cites),
            keys=QuestionKeys(alternatives=((right,),), forbidden=forbidden),
            type_name="changed" if old else "stated" if value else "never mentioned",
        )

    def _checkpoint(self, name: str, session: int, questions: Sequence[Question]) -> Checkpoint:
        placed = tuple(
            replace(question, id=f"{name}:{place}", position=place)
            for place, question in enumerate(questions)
        )
        covered = tuple(_session_id(position) for position in range(session + 1))
        return Checkpoint(name, _session_id(session), placed, covered)


def _session_id(position: int) -> str:
    return f"S{position:02d}"


def _keys(what: str, value: int | None) -> tuple[Key, ...]:
    return Key((what,)), Key((str(value),))
