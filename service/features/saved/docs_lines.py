"""Lines of the page /docs about cases and cohorts, which make one where there is none."""

from collections.abc import Sequence

from cbir.search import example_values as example
from service.features.saved.cases.messages import CASE_ID, CaseSummary
from service.features.saved.cases.visible_cases import list_visible_cases
from service.features.saved.cohorts.messages import COHORT_ID, CohortSummary
from service.features.saved.cohorts.visible_cohorts import list_visible_cohorts
from service.pages.docs_lines import Maker, OperationLines, json_body

CASE = Maker(
    "CASE_ID",
    CASE_ID,
    "id",
    "/v1/cases",
    {
        "kind": "form",
        "media": "multipart/form-data",
        "files": ["query.png"],
        "fields": [["case", '{"title": "Knee", "search": {"k": 20}}']],
    },
    'client.save_case("Knee", client.search("query.png"), query="query.png").id',
)
COHORT = Maker(
    "COHORT_ID",
    COHORT_ID,
    "id",
    "/v1/cohorts",
    json_body(title="Lateral knees", relevant=[example.IMAGE_ID]),
    f'client.begin_cohort("Lateral knees", ["{example.IMAGE_ID}"]).id',
)


def _known_values() -> dict[str, str]:
    """Return the first case and cohort that the caller may see, by the ids of the examples."""
    listed: dict[str, Sequence[CaseSummary | CohortSummary]] = {
        CASE_ID: list_visible_cases("", None, 1).items,
        COHORT_ID: list_visible_cohorts(None, 1).items,
    }
    return {placeholder: items[0].id for placeholder, items in listed.items() if items}


LINES = OperationLines(
    changing={
        **dict.fromkeys(("change_case", "delete_case"), CASE),
        **dict.fromkeys(
            ("change_cohort", "delete_cohort", "next_cohort_batch", "judge_cohort", "undo_cohort"), COHORT
        ),
    },
    showing={
        **dict.fromkeys(("case", "case_picture", "export_case"), CASE),
        **dict.fromkeys(("cohort", "cohort_estimate", "export_cohort"), COHORT),
    },
    known_values=_known_values,
)
