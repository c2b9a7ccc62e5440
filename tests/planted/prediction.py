"""What every number must be, from the doses and the data's make-up alone.

Written from the description of Lossy and of drawn data; nothing of the code under test is used.

With drop p, corrupt q, stale r, hearsay s, let k = (1-p)(1-q): a fact is heard and stored right.

- recall, update recall: a fact (a change) is in the session's delta with its number right: k.
- correctness: of what was stored, 1-q is right; hearsay is not in the denominator.
- update handling: the new value is there with k. It counts 1, or .5 if the old value is there too:
  the old fact was stored right (k) and kept (r). So k * (1 - k r / 2). Without the new value 0.
- interference rejected: 1-s.
- questions about a fact as it was first said: right k; a wrong number (1-p) q; nothing stored p.
- questions about a changed fact: right k (the newest comes first). Wrong number: the change was
  heard and corrupted, (1-p) q, or the change was dropped and some first value was stored, p (1-p).
  Nothing at all stored: p^2.
- questions about what was never mentioned: always right.
- evidence: a question about an unchanged fact cites it: k. One about a changed fact cites the
  change (k) and the first statement, which is still in the store if it was stored right (k) and the
  change was dropped (p) or heard without replacing it (1-p) r.
"""

from __future__ import annotations

from collections import Counter

from harness.drawn import DrawnDataset


def made_of(data: DrawnDataset) -> Counter[str]:
    """How many questions of each type, counted in the data."""
    return Counter(
        str(question.type_name)
        for sample in data
        for checkpoint in sample.checkpoints
        for question in checkpoint.questions
    )


def predict(doses: dict[str, float], questions: Counter[str]) -> dict[str, float]:
    p, q, r, s = (doses[name] for name in ("drop", "corrupt", "stale", "hearsay"))
    k = (1 - p) * (1 - q)
    stated, changed, never = (questions[n] for n in ("stated", "changed", "never mentioned"))
    asked = stated + changed + never
    return {
        "memory_recall.avg_recall": k,
        "memory_recall.avg_update_recall": k,
        "memory_correctness.avg_correctness": 1 - q,
        "update_handling.score": k * (1 - k * r / 2),
        "update_handling.updated_ratio": k * (1 - k * r),
        "update_handling.both_ratio": k * k * r,
        "update_handling.outdated_ratio": 1 - k,
        "interference_rejection.score": 1 - s,
        "question_answering.correct_ratio": (k * (stated + changed) + never) / asked,
        "question_answering.hallucination_ratio": (
            stated * (1 - p) * q + changed * ((1 - p) * q + p * (1 - p))
        )
        / asked,
        "question_answering.omission_ratio": (stated * p + changed * p * p) / asked,
        "evidence_coverage.hit_rate": (stated * k + changed * (k + k * (p + (1 - p) * r)))
        / (stated + 2 * changed),
    }
