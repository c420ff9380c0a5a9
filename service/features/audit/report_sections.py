"""Sections of the HTML report of an audit without pictures: tables, bars, weeks."""

from collections.abc import Sequence
from html import escape

from service.features.audit.messages import (
    CoverageLabel,
    DriftSource,
    GroupFinding,
    LabelFindings,
)
from service.features.audit.privacy import PrivacyFindings, ReportedAudit
from service.features.audit.privacy_texts import WHYS

LISTED_VALUES = 60  # of a label


def summary_line(number: int, singular: str, plural: str) -> str:
    """Return a number with its noun.

    Parameters
    ----------
    number : int
    singular, plural : str
        The noun, of one and of several.
    """
    return f"<b>{number}</b> {singular if number == 1 else plural}"


def render_summary(audit: ReportedAudit) -> str:
    """Render what was found, a line each."""
    leaks = audit.leaks
    rows = [
        (
            "Duplicates",
            summary_line(audit.duplicates.groups, "group", "groups"),
            f"{audit.duplicates.images} images",
        ),
        (
            "Leaks",
            summary_line(sum(leaks.counts.values()), "leak", "leaks") if leaks else "not looked for",
            f"between the values of {escape(leaks.key)}" if leaks else "without --split",
        ),
        (
            "Labels",
            summary_line(audit.labels.suspects, "suspect", "suspects") if audit.labels else "not judged",
            f"of {audit.labels.judged} values of {escape(audit.labels.key)}"
            if audit.labels
            else "without --label",
        ),
        ("Outliers", summary_line(audit.outliers.images, "image", "images"), "unlike the rest"),
        ("Drift", *_drift_line(audit)),
        (
            "Coverage",
            summary_line(audit.coverage.thin, "thin value", "thin values"),
            f"{audit.coverage.patients} patients",
        ),
        (
            "Groups",
            summary_line(sum(group.worse for group in audit.groups), "is worse", "are worse")
            if audit.groups
            else "none compared",
            f"of {len(audit.groups)} compared" if audit.groups else _why_no_groups(audit),
        ),
        (
            "Privacy",
            summary_line(audit.privacy.images, "image", "images") if audit.privacy else "not looked for",
            f"of {audit.privacy.checked} may identify a person" if audit.privacy else "without --privacy",
        ),
    ]
    cards = "".join(
        f'<li><span class="sub">{name}</span><span>{value}</span><small>{note}</small></li>'
        for name, value, note in rows
    )
    return f'<ul class="cards">{cards}</ul>'


def _why_no_groups(audit: ReportedAudit) -> str:
    return "without --label" if audit.groups is None else "no label divides the images into groups"


def _drift_line(audit: ReportedAudit) -> tuple[str, str]:
    """Return the alarms and the number of sources with weeks to compare."""
    sources = audit.drift.sources
    checked = sum(bool(source.weeks) for source in sources)
    if not checked:
        return "not checked", "too few images or weeks to compare"
    return summary_line(audit.drift.alarms, "alarm", "alarms"), f"of {checked} of {len(sources)} sources"


def render_values(labels: LabelFindings) -> str:
    """Render how many labels of each value are suspect and what they look like, and values of too few images."""
    rows = "".join(
        f"<tr><td>{escape(each.value)}</td><td>{each.images}</td><td>{each.suspects}</td>"
        f"<td>{100 * each.suspects / each.images:.1f} %</td><td>{_looks_like(labels, each.value)}</td></tr>"
        for each in labels.values[:LISTED_VALUES]
        if each.suspects
    )
    quiet = [each.value for each in labels.values if not each.suspects and each.value not in labels.rare]
    notes = [("None of these is suspect", quiet), ("Too few independent images to judge", labels.rare)]
    note = "".join(
        f'<p class="note">{title}: {escape(", ".join(values[:LISTED_VALUES]))}'
        f"{', ...' if len(values) > LISTED_VALUES else '.'}</p>"
        for title, values in notes
        if values
    )
    heads = ("label", "images", "suspect", "share", "looks like")
    return (_table(heads, rows) if rows else "<p>No label is suspect.</p>") + note


def _looks_like(labels: LabelFindings, value: str) -> str:
    """Return the other values that suspects of a value look like, as HTML, and their numbers."""
    return ", ".join(
        f"{escape(each.suggested)} ({each.images})" for each in labels.confusions if each.label == value
    )


def render_drift(sources: Sequence[DriftSource]) -> str:
    """Render the weeks of each source as a row of marks, the higher the smaller the p-value."""
    if not any(source.weeks for source in sources):
        return "<p>No source has images of enough weeks to compare.</p>"
    rows = "".join(
        f"<tr><td>{escape(source.source)}</td><td>{source.images}</td><td>{source.alarms}</td>"
        f"<td>{_weeks(source)}</td></tr>"
        for source in sources
    )
    return _table(("source", "images", "alarms", "weeks"), rows)


def _weeks(source: DriftSource) -> str:
    if not source.weeks:
        return '<span class="sub">too few images or weeks to compare</span>'
    marks = "".join(
        f'<rect x="{9 * position}" y="{28 - height:.0f}" width="7" height="{height:.0f}" '
        f'class="{"alarm" if week.alarm else "quiet"}"><title>week of {week.monday}: {week.images} images, '
        f"p = {week.p:.4f}</title></rect>"
        for position, week in enumerate(source.weeks)
        for height in [max(2.0, 28 * (1 - week.p) ** 4)]
    )
    width = 9 * len(source.weeks)
    return f'<svg class="weeks" width="{width}" height="28" viewBox="0 0 {width} 28" role="img">{marks}</svg>'


def render_coverage(labels: Sequence[CoverageLabel]) -> str:
    """Render a table of values with bars for each label."""
    return "".join(_coverage_of(label) for label in labels)


def _coverage_of(label: CoverageLabel) -> str:
    most = max((value.images for value in label.values), default=1)
    rows = "".join(
        f"<tr{' class=thin' if value.thin else ''}><td>{escape(value.value)}"
        f"{' <em>thin</em>' if value.thin else ''}</td>"
        f"<td>{value.images}</td><td>{'–' if value.patients is None else value.patients}</td>"
        f'<td><span class="bar" style="width: {max(100 * value.images / most, 0.5):.1f}%"></span></td></tr>'
        for value in label.values[:LISTED_VALUES]
    )
    further = len(label.values) - LISTED_VALUES
    more = f'<p class="note">{further} rarer values are in audit.json.</p>' if further > 0 else ""
    missing = f", {label.unlabelled} images without it" if label.unlabelled else ""
    head = f"<h3>{escape(label.key)} <small>{len(label.values)} values{missing}</small></h3>"
    return f"{head}{_table(('value', 'images', 'patients', ''), rows, 'coverage')}{more}"


def render_groups(groups: Sequence[GroupFinding]) -> str:
    """Render the groups, the worst first."""
    rows = "".join(
        f"<tr><td>{escape(group.key)}</td><td>{escape(group.value)}</td><td>{group.images}</td>"
        f"<td>{group.patients}</td><td>{group.precision:.3f}</td>"
        f"<td>{group.difference:+.3f} ({group.low:+.3f} to {group.high:+.3f})</td>"
        f"<td>{f'<b>{group.p:.4f}</b>' if group.worse else f'{group.p:.4f}'}</td></tr>"
        for group in sorted(groups, key=lambda group: group.difference)
    )
    heads = ("label", "group", "images", "patients", "P@10", "difference to others of the same label", "p")
    return _table(heads, rows)


def render_privacy(privacy: PrivacyFindings) -> str:
    """Render what may identify a person, by part and reason; no values."""
    rows = "".join(
        f"<tr><td>{group.where}</td><td>{escape(group.part)}</td><td>{WHYS[group.why]}</td>"
        f"<td>{group.images}</td></tr>"
        for group in privacy.groups
    )
    table = (
        _table(("where", "part", "why", "images"), rows, "privacy") if rows else "<p>Nothing was found.</p>"
    )
    unread = f" The files of {privacy.unread} images were not found." if privacy.unread else ""
    dicom = (
        f" {privacy.undeclared} of {privacy.dicom_files} DICOM files do not say that their patient's identity was "
        f"removed; {privacy.own_uids} have UIDs that were not made from a random number."
        if privacy.dicom_files
        else ""
    )
    return (
        f"<p>{privacy.images} of {privacy.checked} images may identify a person.{unread}{dicom} "
        f"privacy.csv lists where and why, without the values.</p>{table}"
    )


def _table(heads: Sequence[str], rows: str, kind: str = "") -> str:
    cells = "".join(f"<th>{head}</th>" for head in heads)
    table = f"<thead><tr>{cells}</tr></thead><tbody>{rows}</tbody>"
    return f'<div class="wide"><table class="{kind}">{table}</table></div>'
