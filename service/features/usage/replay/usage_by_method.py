"""Counts of a usage log by the method that was in use, without a replay."""

from collections.abc import Iterable
from typing import Any

from service.features.usage.replay_log import LoggedSearch


def usage_by_method(searches: Iterable[LoggedSearch]) -> list[dict[str, Any]]:
    """Return for each method its searches, those with an opened answer, and those judged useful and not.

    The share of useful ones has a Wilson interval (95 %); people choose what they judge and with which method, so
    methods differ in their queries too: shares are no comparison.
    """
    from statsmodels.stats.proportion import proportion_confint

    groups: dict[str, list[LoggedSearch]] = {}
    for search in searches:
        groups.setdefault(search.method, []).append(search)
    rows = []
    for method, group in sorted(groups.items()):
        useful = sum(search.useful > 0 for search in group)
        judged = sum(search.useful != 0 for search in group)
        low, high = proportion_confint(useful, judged, method="wilson") if judged else (None, None)
        rows.append(
            {
                "method": method,
                "searches": len(group),
                "opened": sum(bool(search.opened) for search in group),
                "useful": useful,
                "not_useful": judged - useful,
                "useful_share": useful / judged if judged else None,
                "low": None if low is None else float(low),
                "high": None if high is None else float(high),
            }
        )
    return rows
