"""A table of notes with its eraser, a command, a route and a page."""

from flask import Blueprint, render_template_string
from pydantic import BaseModel, Field
from sqlalchemy import Column, Table, Text, delete, insert, select

from cbir import settings
from cbir.system.access_rights import Scope
from service.access.scopes import AccessRule
from service.http.operations import json_response, operation
from service.pages.page_parts import MenuPage
from service.state.database import open_state, state_database
from service.state.schema import tables

notes = Table("notes", tables, Column("image_id", Text, nullable=False, index=True), Column("note", Text))
blueprint = Blueprint("notes", __name__)
RULES = {
    "GET /v1/notes": AccessRule(Scope.search, "notes", unlimited=True),
    "GET /notes": AccessRule(Scope.search, "notes", unlimited=True),
}
MENU_PAGE = MenuPage("notes.show_notes", "Notes", of_collection=False)
PAGE = """{% extends "base.html" %}
{% block main %}<main><ul>{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul></main>{% endblock %}"""


class NoteList(BaseModel):
    """Notes about images."""

    notes: list[str] = Field(description="Notes, in no order.", examples=[["a good example"]])


def list_notes():
    with state_database().reading() as connection:
        return NoteList(notes=list(connection.execute(select(notes.c.note)).scalars()))


@blueprint.get("/v1/notes")
@operation("notes", {200: NoteList})
def get_notes():
    """List all notes."""
    return json_response(list_notes())


@blueprint.get("/notes")
def show_notes():
    """Show all notes."""
    return render_template_string(PAGE, notes=list_notes().notes)


def add_note(image_id: str, note: str):
    """Add a note about an image."""
    with open_state(settings.load()).writing() as connection:
        connection.execute(insert(notes).values(image_id=image_id, note=note))


def erase_notes(settings, keys, image_ids):
    """Remove the notes about a patient's images."""
    database = open_state(settings)
    if database.exists():
        with database.writing() as connection:
            for image_id in image_ids:
                connection.execute(delete(notes).where(notes.c.image_id == image_id))
        database.drop_old_rows()


def noted_images(settings):
    """Return the ids of images with notes."""
    database = open_state(settings)
    if not database.exists():
        return {}
    with database.reading() as connection:
        return {"notes": set(connection.execute(select(notes.c.image_id)).scalars())}
