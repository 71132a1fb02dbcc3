# SPDX-License-Identifier: GPL-2.0-only
"""When samples are enough: confidence intervals, and what is measured further."""

import collections
import math
import statistics

# A ratio is steady when half its interval is within this part of it.
LIMIT = {"icount": 0.01, "wall": 0.05}
# Fewer samples than this may agree by chance: a stream that can settle in one
# of two patterns shows the same one in both of two streams half the time.
LEAST = {"icount": 2, "wall": 4}
# Student's t for 95 %, two-sided, by degrees of freedom from 1 on
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
           2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)

Interval = collections.namedtuple("Interval", "middle low high")


def interval(values, linear=False):
    """
    The 95 % confidence interval of the mean of @values: of the geometric mean,
    since they are ratios, unless @linear is set or one is not positive.  None if
    they are fewer than two, or infinite.
    """
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return None
    linear = linear or min(values) <= 0
    used = values if linear else [math.log(value) for value in values]
    middle = statistics.fmean(used)
    width = STUDENT[min(len(used) - 1, len(STUDENT)) - 1] * \
        statistics.stdev(used) / math.sqrt(len(used))
    ends = middle, middle - width, middle + width
    return Interval(*(ends if linear else map(math.exp, ends)))


def half(found):
    """Half the width of an interval, relative to its middle; of 0, absolute."""
    return (found.high - found.low) / 2 / (abs(found.middle) or 1)


def further(visits, unsteady):
    """
    A round of @visits, (net, who, loads) each, with those loads only that
    @unsteady(load, net) says are not steady.
    """
    found = ((net, who, [load for load in loads if unsteady(load, net)])
             for net, who, loads in visits)
    return [visit for visit in found if visit[2]]
