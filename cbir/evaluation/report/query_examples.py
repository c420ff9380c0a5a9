"""The best and the worst queries of a run with their first answers, as pictures."""

from html import escape

import numpy as np

from cbir.evaluation.experiment import EvalResult
from cbir.evaluation.report.report_pictures import ReportPictures

SHOWN = 5  # queries of each kind
ANSWERS = 8


def render_examples(evaluation: EvalResult, number: int, pictures: ReportPictures) -> str:
    """HTML of one run's best and worst queries by the first measure, one a class as long as there are classes."""
    measure = evaluation.plan.measures[0]
    values = evaluation.values[number, 0]
    falling = -values if not measure.lower_is_better else values
    # Equal values: the query with more relevant images is the more telling one.
    many = -evaluation.judgements.relevant
    best, worst = (np.lexsort((many, order)).tolist() for order in (falling, -falling))
    parts = []
    for title, order in (("Best", best), ("Worst", worst)):
        parts.append(f"<h3>{title} queries by {escape(measure.name)}</h3>")
        parts += [_query(evaluation, number, place, pictures) for place in _various(evaluation, order)]
    return "".join(parts)


def _various(evaluation: EvalResult, order: list[int]) -> list[int]:
    """The first few of `order`, those of a class that was not taken yet before all others."""
    classes, seen, again = evaluation.judgements.query_classes, set(), []
    taken = []
    for place in order:
        if classes[place] in seen:
            again.append(place)
        else:
            seen.add(classes[place])
            taken.append(place)
        if len(taken) == SHOWN:
            break
    return (taken + again)[:SHOWN]


def _query(evaluation: EvalResult, number: int, place: int, pictures: ReportPictures) -> str:
    judgements = evaluation.judgements
    query = judgements.queries[place]
    value = float(evaluation.values[number, 0, place])
    title = judgements.titles[judgements.query_classes[place]]
    drawn = pictures.html(query.source, query.frame, query.content, query.burned_in)
    figures = [f'<figure class="asked">{drawn}<figcaption>query<br>{escape(title)}</figcaption></figure>']
    gains = dict(zip(judgements.places[place].tolist(), judgements.gains[place].tolist(), strict=True))
    answers = evaluation.runs[number].answers.places[place, :ANSWERS].tolist()
    figures += [_answer(evaluation, a, gains.get(a, 0), pictures) for a in answers if a >= 0]
    return (
        f'<div class="query"><p><b>{evaluation.plan.measures[0].name} {value:.3f}</b> '
        f'<span class="sub">{escape(title)}, {judgements.relevant[place]} relevant, <code>{query.name}</code></span>'
        f'</p><div class="film">{"".join(figures)}</div></div>'
    )


def _answer(evaluation: EvalResult, answer: int, gain: int, pictures: ReportPictures) -> str:
    judgements, record = evaluation.judgements, evaluation.candidates.records[answer]
    its_class = int(judgements.classes[answer])
    title = judgements.titles[its_class] if its_class >= 0 else "unjudged"
    hit = gain >= judgements.level
    mark = "✓" if hit else "✗"
    if judgements.spread:
        mark += f" gain {gain}"
    drawn = pictures.html(record.source, record.frame, record.content_hash, record.burned_in)
    kind = "hit" if hit else "miss"
    return f'<figure class="{kind}">{drawn}<figcaption><b>{mark}</b> {escape(title)}</figcaption></figure>'
