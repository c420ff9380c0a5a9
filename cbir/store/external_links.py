"""Links to an image in its archive and in a viewer."""

from cbir.errors import InvalidInput
from cbir.settings import Settings
from cbir.system.addresses import fill_template, is_uid

OHIF_STUDIES = "StudyInstanceUIDs={study}"


def resource_url(archive: str, study: str, series: str = "", instance: str = "") -> str:
    """Return the URL of a study, series or instance in an archive (PS3.18, 10.1).

    Parameters
    ----------
    archive : str
        DICOMweb URL of the archive.
    study, series, instance : str
        UIDs; empty below the level of the resource.

    Raises
    ------
    InvalidInput
        If a UID is not valid.
    """
    parts = [part for part in (("studies", study), ("series", series), ("instances", instance)) if part[1]]
    for name, uid in parts:
        if not is_uid(uid):
            raise InvalidInput(f"{name}: {uid!r} is not a UID")
    return archive + "".join(f"/{name}/{uid}" for name, uid in parts)


def public_archive_url(settings: Settings) -> str | None:
    """Return the archive's URL as clients reach it; None if the settings name no archive."""
    return settings.archive_public_url or settings.archive_url


def rendered_url(archive: str, study: str, series: str, instance: str, frame: int | None) -> str:
    """Return the URL of a rendered image or frame (PS3.18, 10.4, Rendered Resources).

    Parameters
    ----------
    archive : str
        DICOMweb URL of the archive.
    study, series, instance : str
        UIDs of the image.
    frame : int, optional
        Number of the frame, from 1.
    """
    url = resource_url(archive, study, series, instance)
    return f"{url}/frames/{frame}/rendered" if frame else f"{url}/rendered"


def compare_link(settings: Settings, study: str, prior: str) -> str | None:
    """Return the URL of two studies side by side in the viewer; None if none is set, or a UID is not valid."""
    template = settings.compare_link or _ohif_comparison(settings.viewer_link or "")
    if not template or not is_uid(study) or not is_uid(prior):
        return None
    return fill_template(template, study=study, prior=prior)


def _ohif_comparison(viewer_link: str) -> str:
    """Return the address with two studies, and the hanging protocol that compares them; "" if it is not of OHIF."""
    address, _, query = viewer_link.partition("?")
    if OHIF_STUDIES not in query.split("&"):
        return ""
    return f"{address}?{OHIF_STUDIES},{{prior}}&hangingProtocolId=@ohif/hpCompare"


def external_links(
    settings: Settings, study: str, series: str, instance: str, frame: int | None
) -> dict[str, str | None]:
    """Return the links "rendered" and "viewer" of an image.

    Parameters
    ----------
    settings : Settings
        URLs of the archive and the viewer; a link is None if its setting is not set.
    study, series, instance : str
        UIDs of the image; both links are None if one is not valid.
    frame : int, optional
        Number of the frame, from 1.
    """
    archive, template = public_archive_url(settings), settings.viewer_link
    rendered = viewer = None
    if all(map(is_uid, (study, series, instance))):
        if archive:
            rendered = rendered_url(archive, study, series, instance, frame)
        if template:
            uids = {"study": study, "series": series, "instance": instance}
            viewer = fill_template(template, **uids, frame=str(frame or 1))
    return {"rendered": rendered, "viewer": viewer}
