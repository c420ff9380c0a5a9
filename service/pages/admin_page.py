"""Page for administrators: jobs, tokens, collections, requests, health and settings."""

from flask import Blueprint, render_template

from cbir.system.access_rights import Scope
from service.access.auth import access_control
from service.collections.app_state import current_state
from service.languages import use_english

blueprint = Blueprint("admin_page", __name__)


@blueprint.get("/admin")
def show_admin() -> str:
    """Show the page; its script loads what it shows."""
    use_english()
    return render_template(
        "admin.html",
        scopes=list(Scope),
        collections=list(current_state().collections),
        needs_tokens=access_control().required,
    )
