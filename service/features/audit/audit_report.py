"""HTML report of an audit: one file with style, charts and pictures inside."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib.resources import files
from itertools import islice

from cbir.evaluation.report.report_parts import ReportPictures, render_page
from cbir.store import Collection
from cbir.store.records import originals
from service.features.audit.collection_audit import LISTED_MEMBERS
from service.features.audit.messages import Audit, AuditCopy, AuditLeak, SuspectLabel
from service.features.audit.privacy import PrivacyFindings, ReportedAudit
from service.features.audit.report_sections import (
    render_coverage,
    render_drift,
    render_groups,
    render_privacy,
    render_summary,
    render_values,
)

PICTURED = 60  # suspect labels, groups of duplicates, leaks and outliers with pictures
PICTURED_MEMBERS = 6  # pictures of a group
PICTURED_NEIGHBOURS = 3
PICTURED_ALARMS = 10
PERSONAL_TEXT = "with a date, a long number or two words"
DELETED = '<span class="none">deleted meanwhile</span>'

Progress = Callable[[str, int, int], None]
Figure = Callable[[str, str], str]


def render_audit_report(
    audit: ReportedAudit, collection: Collection, max_pixels: int, progress: Progress
) -> str:
    """Return the HTML of the report.

    Parameters
    ----------
    audit : ReportedAudit
    collection : Collection
        The audited collection, whose files the pictures are read from.
    max_pixels : int
        Pixels of the largest picture.
    progress : callable
        As of `run_audit`.
    """
    figure = _Figures(collection, shown_ids(audit), ReportPictures(max_pixels), progress)
    sections = [
        ("duplicates", "Duplicates", _duplicates(audit, figure)),
        ("leaks", "Leaks", _leaks(audit, figure)),
        ("labels", "Labels", _labels(audit, figure)),
        ("outliers", "Outliers", _outliers(audit, figure)),
        ("drift", "Drift", _drift(audit, figure)),
        ("coverage", "Coverage", render_coverage(audit.coverage.labels)),
        ("groups", "Groups", _groups(audit)),
        ("privacy", "Privacy", _privacy(audit.privacy, figure)),
    ]
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title, _ in sections)
    body = "".join(f'<h2 id="{name}">{title}</h2>{text}' for name, title, text in sections)
    style = (files("service.features.audit") / "audit.css").read_text(encoding="utf-8")
    read_at = escape(audit.read_at[:16].replace("T", " "))
    subtitle = f"""{audit.images} images, {read_at} UTC. Not a medical device. The pictures are from the
collection: protect this file as you protect them."""
    note = """labels.csv, duplicates.csv, leaks.csv and outliers.csv have every image,
with its file; audit.json has all figures."""
    title = f"Audit of the collection {collection.folder.resolve().name}"
    return render_page(title, subtitle, f"{render_summary(audit)}<nav>{links}</nav>{body}", note, style)


def shown_ids(audit: ReportedAudit) -> list[str]:
    """Return the ids of the images whose pictures the report shows, each once."""
    ids = [
        member.image_id for group in audit.duplicates.items[:PICTURED] for member in group[:PICTURED_MEMBERS]
    ]
    if audit.leaks:
        ids += [
            image.image_id
            for leak in audit.leaks.items[:PICTURED]
            for image in leak.images[:PICTURED_MEMBERS]
        ]
    if audit.labels:
        for suspect in audit.labels.items[:PICTURED]:
            ids += [suspect.image_id, *suspect.neighbours[:PICTURED_NEIGHBOURS]]
    ids += [outlier.image_id for outlier in audit.outliers.items[:PICTURED]]
    ids += [image_id for _, _, week in _alarms(audit) for image_id in week]
    ids += _texts(audit.privacy)
    return list(dict.fromkeys(ids))


class _Figures:
    """Makes figures of images; their records are read at once."""

    def __init__(
        self, collection: Collection, ids: Sequence[str], pictures: ReportPictures, progress: Progress
    ) -> None:
        self._collection, self._pictures, self._progress = collection, pictures, progress
        self._records = collection.records_by_id(ids)
        self._total, self._done = len(ids), set[str]()

    def __call__(self, image_id: str, caption: str, kind: str = "") -> str:
        """Return a figure with a caption, which is HTML; kind: its class."""
        self._done.add(image_id)
        self._progress("pictures", len(self._done), self._total)
        record, picture = self._records.get(image_id), DELETED
        if record is not None:
            path = originals.original_path(self._collection.folder, record.source)
            source = str(path or record.source)
            picture = self._pictures.html(source, record.frame, record.content_hash, record.burned_in)
        name = escape(image_id)
        return f'<figure class="{kind}">{picture}<figcaption title="{name}">{caption}</figcaption></figure>'


def _film(figures: Iterable[str], caption: str) -> str:
    return f'<div class="query"><p>{caption}</p><div class="film">{"".join(figures)}</div></div>'


def _cut(listed: int, total: int, file: str) -> str:
    return f'<p class="note">The first {listed} of {total}; {file} has all.</p>' if total > listed else ""


def _duplicates(audit: Audit, figure: "_Figures") -> str:
    findings = audit.duplicates
    groups = "".join(_group(group, figure) for group in findings.items[:PICTURED])
    unread = (
        f'<p class="note">Without a readable file, compared by content alone: {findings.unread}.</p>'
        if findings.unread
        else ""
    )
    return (
        f"<p>{findings.groups} groups with {findings.images} images.</p>{unread}"
        f'<div class="pairs">{groups}</div>{_cut(PICTURED, findings.groups, "duplicates.csv")}'
    )


def _group(group: Sequence[AuditCopy], figure: "_Figures") -> str:
    figures = [figure(member.image_id, escape(member.change)) for member in group[:PICTURED_MEMBERS]]
    further = f", {len(group) - PICTURED_MEMBERS} not shown" if len(group) > PICTURED_MEMBERS else ""
    number = f"{len(group)} images" if len(group) < LISTED_MEMBERS else f"{len(group)} images or more"
    return _film(figures, f"{number}{further}")


def _leaks(audit: Audit, figure: "_Figures") -> str:
    if audit.leaks is None:
        return "<p>Not looked for: <code>--split KEY</code> names the label of the parts.</p>"
    counts = ", ".join(f"{count} by {escape(kind)}" for kind, count in audit.leaks.counts.items())
    leaks = "".join(_leak(leak, figure) for leak in audit.leaks.items[:PICTURED])
    total = sum(audit.leaks.counts.values())
    return (
        f"<p>Between the values of <code>{escape(audit.leaks.key)}</code>: {counts or 'none'}.</p>"
        f'<div class="pairs">{leaks}</div>{_cut(PICTURED, total, "leaks.csv")}'
    )


def _leak(leak: AuditLeak, figure: "_Figures") -> str:
    figures = [
        figure(image.image_id, f"<b>{escape(image.part)}</b>") for image in leak.images[:PICTURED_MEMBERS]
    ]
    return _film(figures, f"the same {escape(leak.kind)}, {len(leak.images)} images")


def _labels(audit: Audit, figure: "_Figures") -> str:
    if audit.labels is None:
        return "<p>Not judged: <code>--label KEY</code> names the label.</p>"
    suspects = "".join(_suspect(suspect, figure) for suspect in audit.labels.items[:PICTURED])
    return (
        f"<p>{audit.labels.suspects} of {audit.labels.judged} labels <code>{escape(audit.labels.key)}</code> are "
        "suspect: another value is likelier by images of other patients. Beside each are the nearest images that "
        f"have the other value.</p>{render_values(audit.labels)}<h3>Most suspicious</h3>"
        f'<div class="pairs">{suspects}</div>{_cut(PICTURED, audit.labels.suspects, "labels.csv")}'
    )


def _suspect(suspect: SuspectLabel, figure: "_Figures") -> str:
    figures = [figure(suspect.image_id, f"<b>{escape(suspect.label)}</b>", "asked miss")]
    neighbours = islice(suspect.neighbours, PICTURED_NEIGHBOURS)
    figures += [figure(image_id, escape(suspect.suggested), "hit") for image_id in neighbours]
    return _film(
        figures,
        f"<b>{suspect.suspicion:.3f}</b> {escape(suspect.label)} → {escape(suspect.suggested)}",
    )


def _outliers(audit: Audit, figure: "_Figures") -> str:
    findings = audit.outliers
    figures = "".join(
        figure(outlier.image_id, f"{100 * outlier.likeness:.2f} % are as far")
        for outlier in findings.items[:PICTURED]
    )
    return (
        f"<p>{findings.images} images are further from their neighbours than nearly all others.</p>"
        f'<div class="grid">{figures}</div>{_cut(PICTURED, findings.images, "outliers.csv")}'
    )


def _drift(audit: Audit, figure: "_Figures") -> str:
    by = f"the label <code>{escape(audit.drift.key)}</code>" if audit.drift.key else "the folder of the files"
    alarms = "".join(
        _film(
            [figure(image_id, "") for image_id in ids],
            f"<b>{escape(source)}</b>, week of {week}: the least expected new images",
        )
        for source, week, ids in _alarms(audit)
    )
    return (
        f"<p>The newest images of each source against earlier ones, week by week; {by} names the source. A red "
        f"mark is an alarm (p ≤ {audit.drift.threshold:.4f}): one false alarm a year is expected.</p>"
        f"{render_drift(audit.drift.sources)}{alarms}"
    )


def _alarms(audit: Audit) -> list[tuple[str, str, list[str]]]:
    """Return source, week and images of the latest alarms."""
    alarms = [
        (source.source, str(week.monday), week.image_ids)
        for source in audit.drift.sources
        for week in source.weeks
        if week.alarm
    ]
    return sorted(alarms, key=lambda alarm: alarm[1], reverse=True)[:PICTURED_ALARMS]


def _privacy(privacy: PrivacyFindings | None, figure: "_Figures") -> str:
    if privacy is None:
        return "<p>Not looked for: <code>--privacy</code> looks at tags, labels, paths and pixels.</p>"
    personal = {item.image_id for item in privacy.items if item.why == "personal-text"}
    texts = "".join(figure(each, PERSONAL_TEXT if each in personal else "") for each in _texts(privacy))
    pictures = f'<h3>Text in the pixels</h3><div class="grid">{texts}</div>' if texts else ""
    return f"{render_privacy(privacy)}{pictures}"


def _texts(privacy: PrivacyFindings | None) -> list[str]:
    """Return the ids of images whose pixels have text, the first that are shown."""
    items = privacy.items if privacy else []
    return list(dict.fromkeys(item.image_id for item in items if item.where == "pixels"))[:PICTURED]


def _groups(audit: Audit) -> str:
    if audit.groups is None:
        return "<p>Not compared: <code>--label KEY</code> names the label that answers should share.</p>"
    if not audit.groups:
        return (
            "<p>No label divides the images into groups, such as sex, age or scanner, of enough patients.</p>"
        )
    return (
        "<p>Whether images of a group are retrieved worse than others of the same label: share of the first ten "
        "answers with the image's label. Intervals are of patients drawn again; p-values are corrected for the "
        f"number of groups (Holm).</p>{render_groups(audit.groups)}"
    )
