"""Addresses of an image elsewhere: in the archive that it is of, and in a viewer."""

from cbir.addresses import fill_template, is_uid
from cbir.errors import InvalidInput
from cbir.settings import Settings


def resource_url(archive: str, study: str, series: str = "", instance: str = "") -> str:
    """The address of a study, series or instance in an archive (PS3.18, 10.1); raises InvalidInput."""
    parts = [part for part in (("studies", study), ("series", series), ("instances", instance)) if part[1]]
    for name, uid in parts:
        if not is_uid(uid):
            raise InvalidInput(f"{name}: {uid!r} is no UID, so no archive has it")
    return archive + "".join(f"/{name}/{uid}" for name, uid in parts)


def public_archive_url(settings: Settings) -> str | None:
    """The archive's address as clients reach it; None where the settings name no archive."""
    return settings.archive_public_url or settings.archive_url


def rendered_url(archive: str, study: str, series: str, instance: str, frame: int | None) -> str:
    """Where the archive draws an image, or one of its frames (PS3.18, 10.4, Rendered Resources)."""
    address = resource_url(archive, study, series, instance)
    return f"{address}/frames/{frame}/rendered" if frame else f"{address}/rendered"


def external_links(
    settings: Settings, study: str, series: str, instance: str, frame: int | None
) -> dict[str, str | None]:
    """`rendered` and `viewer` of an image; None where the settings do not say, and without three UIDs."""
    archive, template = public_archive_url(settings), settings.viewer_link
    known = all(map(is_uid, (study, series, instance)))
    drawn = rendered_url(archive, study, series, instance, frame) if archive and known else None
    viewer = None
    if template and known:
        viewer = fill_template(template, study=study, series=series, instance=instance, frame=str(frame or 1))
    return {"rendered": drawn, "viewer": viewer}
