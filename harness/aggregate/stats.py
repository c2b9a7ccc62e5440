"""Intervals and tests. A conversation is the unit that is drawn; its sessions are not independent.

Everything here works on per-conversation sums: y_g (numerator) and x_g (denominator) of each
conversation g, of G that have a denominator. A number in a table is R = sum(y) / sum(x).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, ndtri, stdtrit

Floats = NDArray[np.float64]

#: Up to this many label swaps are all tried; above, a seeded sample of them is.
EXACT_LIMIT = 1 << 14
DRAWS = 9_999

TOO_FEW = "fewer than 2 conversations"
NO_SPREAD = "no variation between conversations"


@dataclass(frozen=True)
class Interval:
    """An interval, or why there is none. ``clusters`` is G."""

    bounds: tuple[float, float] | None
    clusters: int
    reason: str | None = None


def cluster_t(
    y: Sequence[float], x: Sequence[float], *, level: float = 0.95, bounded: bool = True
) -> Interval:
    """Cluster-robust t interval of the ratio R = sum(y)/sum(x) over conversations.

    Linearisation of a ratio estimator with e_g = y_g - R x_g (Cochran, Sampling Techniques, 3rd
    ed., 1977, section 6.3), so Var(R) = G/(G-1) * sum(e_g^2) / (sum x)^2, and a t quantile with
    G - 1 degrees of freedom (Cameron and Miller, J. Human Resources 50, 2015, section VI). A mean
    over sessions is the ratio of the sum of their scores to their number.

    Args:
        y: numerators, one a conversation.
        x: denominators; conversations with x = 0 are no part of it.
        level: the nominal coverage.
        bounded: clip to [0, 1].
    """
    ys, xs = _clusters(y, x)
    clusters = len(xs)
    if clusters < 2:
        return Interval(None, clusters, TOO_FEW)
    total = float(xs.sum())
    ratio = float(ys.sum()) / total
    residuals = ys - ratio * xs
    error = math.sqrt(clusters / (clusters - 1) * float(residuals @ residuals)) / total
    if error < 1e-12:
        return Interval(None, clusters, NO_SPREAD)
    half = float(stdtrit(clusters - 1, 0.5 + level / 2)) * error
    low, high = ratio - half, ratio + half
    return Interval((max(0.0, low), min(1.0, high)) if bounded else (low, high), clusters)


def _clusters(y: Sequence[float], x: Sequence[float]) -> tuple[Floats, Floats]:
    ys, xs = np.asarray(y, dtype=np.float64), np.asarray(x, dtype=np.float64)
    if ys.shape != xs.shape:
        raise ValueError(f"{ys.size} numerators and {xs.size} denominators")
    there = xs > 0
    return ys[there], xs[there]


@dataclass(frozen=True)
class Paired:
    """A minus B over the conversations that both have.

    ``p`` is two-sided; ``smallest_p`` what it could be at best with so many conversations, so that
    "not distinguishable" can be told from "could not have been".
    """

    difference: float
    interval: Interval
    p: float
    conversations: int
    exact: bool
    smallest_p: float


def sign_flip(
    a: tuple[Sequence[float], Sequence[float]],
    b: tuple[Sequence[float], Sequence[float]],
    *,
    seed: int = 0,
) -> Paired | None:
    """Paired permutation test over conversations between two rows on the same data.

    Under "no difference" the two labels of a conversation may be swapped. The statistic is the size
    of R_A - R_B, computed anew for each swap (with equal denominators this is the sign-flip test of
    the differences of conversations). All 2^G swaps for G <= 14, where p is the share of them that
    is at least as extreme; else p = (1 + extreme) / (1 + draws) over seeded draws (Phipson and
    Smyth, Stat. Appl. Genet. Mol. Biol. 9, 2010, article 39).

    Args:
        a: numerators and denominators of row A, in the order of conversations.
        b: the same of row B.
        seed: of the drawn swaps.

    Returns:
        None where no conversation has a denominator in both rows.
    """
    ya, xa, yb, xb = (np.asarray(v, dtype=np.float64) for v in (*a, *b))
    if not ya.shape == xa.shape == yb.shape == xb.shape:
        raise ValueError("the two rows must list the same conversations")
    both = (xa > 0) & (xb > 0)
    ya, xa, yb, xb = ya[both], xa[both], yb[both], xb[both]
    clusters = len(xa)
    if clusters == 0:
        return None
    ratio_a, ratio_b = ya.sum() / xa.sum(), yb.sum() / xb.sum()
    observed = abs(ratio_a - ratio_b) - 1e-12
    exact = 2**clusters <= EXACT_LIMIT
    extreme = tried = 0
    for swaps in _swaps(clusters, exact, seed):
        flips = swaps @ np.column_stack([yb - ya, xb - xa])
        top_a, low_a = ya.sum() + flips[:, 0], xa.sum() + flips[:, 1]
        top_b, low_b = yb.sum() - flips[:, 0], xb.sum() - flips[:, 1]
        extreme += int((np.abs(top_a / low_a - top_b / low_b) >= observed).sum())
        tried += len(swaps)
    p = extreme / tried if exact else (1 + extreme) / (1 + tried)
    return Paired(
        difference=float(ratio_a - ratio_b),
        interval=_difference_interval(ya, xa, yb, xb),
        p=p,
        conversations=clusters,
        exact=exact,
        smallest_p=2 / 2**clusters if exact else 1 / (1 + tried),
    )


def _swaps(clusters: int, exact: bool, seed: int) -> Iterator[Floats]:
    """0/1 matrices, a swap a row, in blocks that stay small in memory."""
    if exact:
        numbers = np.arange(2**clusters, dtype=np.int64)[:, None]
        yield ((numbers >> np.arange(clusters)) & 1).astype(np.float64)
        return
    random = np.random.default_rng(seed)
    block = max(1, min(DRAWS, 2_000_000 // clusters))
    for start in range(0, DRAWS, block):
        size = min(block, DRAWS - start)
        yield random.integers(0, 2, (size, clusters)).astype(np.float64)


def _difference_interval(ya: Floats, xa: Floats, yb: Floats, xb: Floats) -> Interval:
    """Cluster-robust t interval of R_A - R_B: residuals of both rows, paired by conversation."""
    clusters = len(xa)
    if clusters < 2:
        return Interval(None, clusters, TOO_FEW)
    ratio_a, ratio_b = ya.sum() / xa.sum(), yb.sum() / xb.sum()
    residuals = (ya - ratio_a * xa) / xa.sum() - (yb - ratio_b * xb) / xb.sum()
    error = math.sqrt(clusters / (clusters - 1) * float(residuals @ residuals))
    if error < 1e-12:
        return Interval(None, clusters, NO_SPREAD)
    half = float(stdtrit(clusters - 1, 0.975)) * error
    difference = float(ratio_a - ratio_b)
    return Interval((max(-1.0, difference - half), min(1.0, difference + half)), clusters)


def wilson(successes: int, total: int, *, level: float = 0.95) -> tuple[float, float] | None:
    """Wilson's score interval (J. Am. Stat. Assoc. 22, 1927). Unclustered: only where units are
    independent, which questions of one conversation are not.
    """
    if total == 0:
        return None
    z = float(ndtri(0.5 + level / 2))
    share = successes / total
    scale = 1 + z * z / total
    centre = (share + z * z / (2 * total)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, centre - half), min(1.0, centre + half)


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided McNemar test: binomial on the discordant pairs. Unclustered, as above."""
    discordant = only_a + only_b
    if discordant == 0:
        return 1.0
    return min(1.0, 2 * float(bdtr(min(only_a, only_b), discordant, 0.5)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p values (Scand. J. Stat. 6, 1979), in the order given."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for step, index in enumerate(order):
        running = max(running, (len(p_values) - step) * p_values[index])
        adjusted[index] = min(1.0, running)
    return adjusted
