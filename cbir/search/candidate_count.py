"""Number of candidates of an index that a search re-ranks."""

from cbir.settings import Settings
from cbir.store.profile import Profile

UNPROJECTED = 5000  # relevance flows further where the graph is in a whitened space


def candidate_count(settings: Settings, profile: Profile) -> int:
    """Return the number of candidates: of the setting, or more where it is not set and the profile needs them.

    bench/results/candidate_quality.md has what fewer lose.
    """
    if "indexed_candidates" in settings.model_fields_set or profile.is_projected:
        return settings.indexed_candidates
    return UNPROJECTED
