"""What a reader must know to compare the figures with others: the first part of the report."""

from html import escape

from cbir.evaluation.experiment import EvalResult
from cbir.evaluation.significance import RESAMPLES

NAMED = 20  # queries without relevant images that are listed by name


def describe_protocol(evaluation: EvalResult) -> list[tuple[str, str]]:
    """Headings and their HTML."""
    return [
        ("Collection", _collection(evaluation)),
        ("Queries", _queries(evaluation)),
        ("Without relevant images", _without_relevant(evaluation)),
        ("Relevance", _relevance(evaluation)),
        ("Unjudged images", _unjudged(evaluation)),
        ("Same patient", _patients(evaluation)),
        ("Depth", _depth(evaluation)),
        ("Ties", _ties(evaluation)),
        ("Statistics", _statistics(evaluation)),
    ]


def _collection(evaluation: EvalResult) -> str:
    info, plan = evaluation.collection, evaluation.plan
    where = (
        f", of them {len(evaluation.candidates)} with {escape(' and '.join(plan.where))}"
        if plan.where
        else ""
    )
    return (
        f"{info['images']} images{where}; profile {escape(str(info['profile']))} "
        f"(<code>{info['profile_hash']}</code>), generation {info['generation']}"
    )


def _queries(evaluation: EvalResult) -> str:
    plan, judgements = evaluation.plan, evaluation.judgements
    of = "images of the collection, each against all others" if plan.queries is None else "files of the csv"
    drawn = (
        f", a sample of {plan.sample} drawn evenly from the classes with seed {plan.seed}"
        if plan.sample
        else ""
    )
    run = len(judgements.queries) + len(judgements.without_relevant)
    left = (
        ""
        if plan.sample or run == evaluation.asked
        else f"; {evaluation.asked - run} have not the labels needed"
    )
    return f"{evaluation.asked} {of}{drawn}{left}. <b>{len(judgements.queries)} are evaluated.</b>"


def _without_relevant(evaluation: EvalResult) -> str:
    without = [query.name for query in evaluation.judgements.without_relevant]
    if not without:
        return "None: every query has a relevant image in the collection."
    more = f" and {len(without) - NAMED} more, in queries.csv" if len(without) > NAMED else ""
    names = ", ".join(f"<code>{escape(name)}</code>" for name in without[:NAMED])
    return f"{len(without)} of the queries, in no average: {names}{more}."


def _relevance(evaluation: EvalResult) -> str:
    judgements = evaluation.judgements
    words = escape(judgements.relevance.in_words(judgements.spread))
    if not judgements.spread:
        return f"{words} Relevance level 1."
    return (
        f"{words} Measures that need a yes or no count answers with a gain of at least {judgements.level} as "
        f"relevant (relevance level {judgements.level}); nDCG uses the gains."
    )


def _unjudged(evaluation: EvalResult) -> str:
    count = evaluation.judgements.unjudged
    if not count:
        return "None: every image of the collection has the labels that relevance needs."
    shares = ", ".join(
        f"{escape(run.method.name)} {share:.1%}"
        for run, share in zip(evaluation.runs, evaluation.unjudged.tolist(), strict=True)
    )
    return f"{count} images lack the labels and count as not relevant. Among the first ten answers: {shares}."


def _patients(evaluation: EvalResult) -> str:
    if evaluation.plan.same_patient:
        return "Images of the query's own patient are among the answers, as was asked for. The query itself is not."
    known = sum(query.patient is not None for query in evaluation.judgements.queries)
    return (
        "Images of the query's own patient, and the query's own picture, are left out of its answers and of the "
        f"relevant images. The patient is known of {known} of the {len(evaluation.judgements.queries)} queries."
    )


def _depth(evaluation: EvalResult) -> str:
    text = (
        f"The first {evaluation.depth} answers to each query; relevant images behind them count as not found, in "
        "AP with all relevant images in the denominator."
    )
    if evaluation.shallow and any(measure.name == "ANMRR" for measure in evaluation.plan.measures):
        text += f" For {evaluation.shallow} queries ANMRR looks deeper, and is an upper bound."
    return text


def _ties(evaluation: EvalResult) -> str:
    shares = ", ".join(
        f"{escape(run.method.name)} {run.facts['ties'] / max(run.facts['answers'], 1):.2%}"
        for run in evaluation.runs
    )
    return (
        "Answers with equal scores stand in the order in which they were indexed. In the run files they are told "
        f"apart in the last digit, so that every program sees this order. Answers tied with the one before: {shares}."
    )


def _statistics(evaluation: EvalResult) -> str:
    first = escape(evaluation.runs[0].method.name)
    tests = (
        f" Differences are to {first}; p is of a paired randomisation test with {RESAMPLES} draws, after Holm's "
        "correction for the methods compared."
        if len(evaluation.runs) > 1
        else ""
    )
    return (
        f"Means over queries, in brackets 95 % bootstrap intervals ({RESAMPLES} resamples of the queries, "
        f"seed {evaluation.plan.seed}).{tests}"
    )
