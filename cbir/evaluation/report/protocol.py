"""Protocol section of the report: the conditions to know before comparing figures with others."""

from html import escape

from cbir.evaluation.experiment import EvalResult
from cbir.evaluation.significance import RESAMPLES

LISTED = 20  # queries without relevant images that are listed by name


def describe_protocol(result: EvalResult) -> list[tuple[str, str]]:
    """Return headings and their HTML."""
    return [
        ("Collection", _collection(result)),
        ("Queries", _queries(result)),
        ("Without relevant images", _without_relevant(result)),
        ("Relevance", _relevance(result)),
        ("Unjudged images", _unjudged(result)),
        ("Same patient", _patients(result)),
        ("Depth", _depth(result)),
        ("Ties", _ties(result)),
        ("Statistics", _statistics(result)),
        *([("Folds", _folds(result))] if result.by_fold is not None else []),
    ]


def _collection(result: EvalResult) -> str:
    info, plan = result.collection, result.plan
    where = (
        f", of them {len(result.candidates)} with {escape(' and '.join(plan.where))}" if plan.where else ""
    )
    return (
        f"{info['images']} images{where}; profile {escape(str(info['profile']))} "
        f"(<code>{info['profile_hash']}</code>), generation {info['generation']}"
    )


def _queries(result: EvalResult) -> str:
    plan, qrels = result.plan, result.qrels
    source = (
        "images of the collection, each against all others" if plan.queries is None else "files of the csv"
    )
    if plan.queries_where:
        source = "images of the collection" if plan.queries is None else source
        source += f" with {escape(' and '.join(plan.queries_where))}"
    sample = (
        f", a sample of {plan.sample} drawn evenly from the classes with seed {plan.seed}"
        if plan.sample
        else ""
    )
    run = len(qrels.queries) + len(qrels.without_relevant)
    left = (
        ""
        if plan.sample or run == result.query_count
        else f"; {result.query_count - run} lack the labels needed"
    )
    return f"{result.query_count} {source}{sample}{left}. <b>{len(qrels.queries)} are evaluated.</b>"


def _without_relevant(result: EvalResult) -> str:
    without = [query.name for query in result.qrels.without_relevant]
    if not without:
        return "None: every query has a relevant image in the collection."
    more = f" and {len(without) - LISTED} more, in queries.csv" if len(without) > LISTED else ""
    names = ", ".join(f"<code>{escape(name)}</code>" for name in without[:LISTED])
    return f"{len(without)} of the queries, in no average: {names}{more}."


def _relevance(result: EvalResult) -> str:
    qrels = result.qrels
    words = escape(qrels.relevance.in_words(qrels.spread))
    if not qrels.spread:
        return f"{words} Relevance level 1."
    return (
        f"{words} Measures that need a yes or no count answers with a gain of at least {qrels.level} as "
        f"relevant (relevance level {qrels.level}); nDCG uses the gains."
    )


def _unjudged(result: EvalResult) -> str:
    count = result.qrels.unjudged
    if not count:
        return "None: every image of the collection has the labels that relevance needs."
    shares = ", ".join(
        f"{escape(run.method.name)} {share:.1%}"
        for run, share in zip(result.runs, result.unjudged.tolist(), strict=True)
    )
    return f"{count} images lack the labels and count as not relevant. Among the first ten answers: {shares}."


def _patients(result: EvalResult) -> str:
    if result.plan.same_patient:
        return (
            "Images of the query's own patient are among the answers, as requested. The query itself is not."
        )
    with_patient = sum(query.patient is not None for query in result.qrels.queries)
    return (
        "Images of the query's own patient, and the query's own picture, are left out of its answers and of the "
        f"relevant images. The patient is known for {with_patient} of the {len(result.qrels.queries)} queries."
    )


def _depth(result: EvalResult) -> str:
    text = (
        f"The first {result.depth} answers to each query; relevant images after them count as not retrieved; "
        "the denominator of AP is all relevant images."
    )
    if result.shallow and any(metric.name == "ANMRR" for metric in result.plan.metrics):
        text += f" For {result.shallow} queries ANMRR needs more, and is an upper bound."
    return text


def _ties(result: EvalResult) -> str:
    shares = ", ".join(
        f"{escape(run.method.name)} {run.facts['ties'] / max(run.facts['answers'], 1):.2%}"
        for run in result.runs
    )
    return (
        "Answers with equal scores are in the order in which they were indexed. In the run files they differ in "
        f"the last digit, so that every program sees this order. Answers tied with the one before: {shares}."
    )


def _statistics(result: EvalResult) -> str:
    first = escape(result.runs[0].method.name)
    tests = (
        f" Differences are to {first}; p is of a paired randomisation test with {RESAMPLES} draws, after Holm's "
        "correction for the methods compared."
        if len(result.runs) > 1
        else ""
    )
    return (
        f"Means over queries, in brackets 95 % bootstrap intervals ({RESAMPLES} resamples of the queries, "
        f"seed {result.plan.seed}).{tests}"
    )


def _folds(result: EvalResult) -> str:
    return (
        f"{result.plan.folds} folds of the queries with seed {result.plan.seed}; those of a patient are in one fold, "
        "and classes are spread evenly. All folds search the same images."
    )
