"""Other studies of a patient on the page that a DICOM viewer shows in a frame."""

from typing import Any
from urllib.parse import urlencode

from cbir.search import Searcher, record_links
from cbir.search.prior_studies import PriorRequest, PriorStudy
from cbir.store.external_links import compare_link
from cbir.store.records.dicom_instances import DicomScope
from service.features.similar.priors.routes import search_priors
from service.languages import gettext, ngettext

MOST = 6


def prior_cards(scope: DicomScope, collection: str | None) -> list[dict[str, Any]]:
    """Return what the page shows of the other studies of the patient of `scope`, best first."""
    priors, searcher = search_priors(scope, collection, PriorRequest(images=1, limit=MOST))
    return [_study_card(searcher, study, collection) for study in priors.studies if study.study]


def _study_card(searcher: Searcher, study: PriorStudy, collection: str | None) -> dict[str, Any]:
    best = study.best
    links = record_links(searcher.settings, best.record).in_collection(collection)
    page = (
        f"/?{urlencode({'image': best.record.image_id} | ({'collection': collection} if collection else {}))}"
    )
    both = compare_link(searcher.settings, best.query.study, study.study)
    return {
        "title": time_of(study.days_before),
        "thumbnail": links.thumbnail,
        "address": both or links.viewer or page,
        "side_by_side": bool(both),
    }


def time_of(days: int | None) -> str:
    """Say how long before the query's study another one was made."""
    if days is None:
        return gettext("Time unknown")
    if days == 0:
        return gettext("On the same day")
    if days < 0:
        return ngettext("%(count)s day later", "%(count)s days later", -days)
    return ngettext("%(count)s day earlier", "%(count)s days earlier", days)
