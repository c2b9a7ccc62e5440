"""Intervals and tests: hand-computed values, identities, and simulated coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from scipy.stats import binomtest

from harness.aggregate.stats import (
    NO_SPREAD,
    TOO_FEW,
    cluster_t,
    holm,
    mcnemar,
    sign_flip,
    wilson,
)

#: Questions a conversation in LoCoMo (categories 1 to 4).
LOCOMO_SIZES = (152, 81, 152, 199, 178, 123, 150, 191, 156, 158)


def test_cluster_t_by_hand() -> None:
    # Clusters 1/2, 3/4, 2/2: R = 6/8. e = y - R x = -.5, 0, .5; sum e^2 = .5.
    # Var = 3/2 * .5 / 64; half = t(.975, 2) * sqrt(.01171875).
    found = cluster_t([1, 3, 2], [2, 4, 2])
    half = scipy_stats.t.ppf(0.975, 2) * math.sqrt(1.5 * 0.5 / 64)
    assert found.bounds == pytest.approx((0.75 - half, 1.0))  # clipped at 1
    unbounded = cluster_t([1, 3, 2], [2, 4, 2], bounded=False)
    assert unbounded.bounds == pytest.approx((0.75 - half, 0.75 + half))
    assert found.clusters == 3


def test_with_equal_clusters_it_is_the_t_interval_of_their_means() -> None:
    means = [0.2, 0.5, 0.9, 0.4, 0.6]
    found = cluster_t([10 * m for m in means], [10] * 5)
    expected = scipy_stats.t.interval(0.95, 4, loc=np.mean(means), scale=scipy_stats.sem(means))
    assert found.bounds == pytest.approx(expected)


def test_no_interval_has_a_reason() -> None:
    assert cluster_t([1], [2]).reason == TOO_FEW
    assert cluster_t([], []).reason == TOO_FEW
    assert cluster_t([1, 0], [2, 0]).reason == TOO_FEW  # one of them has no denominator
    assert cluster_t([1, 2, 3], [1, 2, 3]).reason == NO_SPREAD


@pytest.mark.parametrize(
    ("sizes", "draws"), [(LOCOMO_SIZES, 3000), ((20,) * 5, 3000), ((40,) * 30, 1500)]
)
def test_coverage_is_what_it_says(sizes: tuple[int, ...], draws: int) -> None:
    """Nominal 95 % intervals hold the truth in .93 to .97 of simulated runs.

    Conversations differ in difficulty (beta-distributed with mean .6), and questions of one share
    it, so that intervals for independent questions would be far too short.
    """
    random = np.random.default_rng(11)
    held = naive = 0
    for _ in range(draws):
        share = random.beta(6, 4, len(sizes))
        right = random.binomial(sizes, share)
        low, high = cluster_t(right, sizes, bounded=False).bounds or (0.0, 0.0)
        held += low <= 0.6 <= high
        narrow = wilson(int(right.sum()), sum(sizes))
        naive += narrow is not None and narrow[0] <= 0.6 <= narrow[1]
    assert 0.93 <= held / draws <= 0.97
    assert naive / draws < 0.9


def test_sign_flip_by_hand() -> None:
    # Three conversations of one question each: A right in all, B in none. Of 8 swaps, two (none and
    # all) give a difference of 1: p = 2/8.
    paired = sign_flip(([1, 1, 1], [1, 1, 1]), ([0, 0, 0], [1, 1, 1]))
    assert paired is not None
    assert (paired.difference, paired.p, paired.exact) == (1.0, 0.25, True)
    assert paired.smallest_p == 0.25
    # Differences 2, 1, -1 (of 4 questions each, 12 in all): |sum| >= 2 in 6 of 8 swaps:
    # sums are +-2+-1+-1 in {4, 2, 2, 0, 0, -2, -2, -4}.
    other = sign_flip(([3, 2, 1], [4, 4, 4]), ([1, 1, 2], [4, 4, 4]))
    assert other is not None and other.p == 6 / 8
    assert other.difference == pytest.approx(2 / 12)


def test_sign_flip_leaves_out_what_only_one_row_has() -> None:
    paired = sign_flip(([1, 1, 5], [2, 2, 5]), ([0, 1, 0], [2, 2, 0]))
    assert paired is not None and paired.conversations == 2
    assert paired.difference == pytest.approx(0.25)
    assert sign_flip(([1], [0]), ([1], [1])) is None


def test_many_conversations_are_sampled_and_seeded() -> None:
    random = np.random.default_rng(3)
    x = [10.0] * 20
    a, b = random.binomial(10, 0.6, 20), random.binomial(10, 0.5, 20)
    one, same = (sign_flip((list(a), x), (list(b), x), seed=1) for _ in range(2))
    other = sign_flip((list(a), x), (list(b), x), seed=2)
    assert one is not None and other is not None and one == same
    assert not one.exact and one.p == pytest.approx(other.p, abs=0.02) and one.p >= 1 / 10_000


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=10).map(
        lambda pairs: ([float(a) for a, _ in pairs], [float(b) for _, b in pairs])
    )
)
def test_swapping_the_rows_turns_the_sign_and_nothing_else(
    scores: tuple[list[float], list[float]],
) -> None:
    x = [9.0] * len(scores[0])
    forth = sign_flip((scores[0], x), (scores[1], x))
    back = sign_flip((scores[1], x), (scores[0], x))
    assert forth is not None and back is not None
    assert forth.p == back.p and forth.difference == pytest.approx(-back.difference)
    assert forth.smallest_p <= forth.p <= 1.0


def test_wilson_and_mcnemar_agree_with_scipy() -> None:
    for successes, total in ((0, 10), (7, 10), (45, 96), (96, 96)):
        expected = binomtest(successes, total).proportion_ci(0.95, method="wilson")
        assert wilson(successes, total) == pytest.approx((expected.low, expected.high))
    assert wilson(0, 0) is None
    for a, b in ((0, 0), (5, 0), (12, 4), (30, 31)):
        expected_p = binomtest(a, a + b, 0.5).pvalue if a + b else 1.0
        assert mcnemar(a, b) == pytest.approx(expected_p)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_lowers_p_and_keeps_the_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for p, q in zip(p_values, adjusted, strict=True):
        assert p <= q + 1e-12 <= 1.0 + 1e-9
    ranked = sorted(range(len(p_values)), key=lambda i: p_values[i])
    assert [adjusted[i] for i in ranked] == sorted(adjusted)
