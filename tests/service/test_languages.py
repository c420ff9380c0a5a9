import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from babel.messages import Catalog
from flask.testing import FlaskClient

import service
from cbir.settings import Settings
from service.app import create_app
from service.languages import current_language, gettext, ngettext
from service.languages.catalogues import Language, folders, forms_of, languages
from service.languages.request_language import address_of, format_day, format_number, format_time
from service.languages.update_catalogues import extract_messages
from tests.service.marked_texts import unmarked_in_script, unmarked_in_template

SERVICE = Path(service.__file__).parent
ENGLISH_PAGES = {"docs.html", "errors.html", "admin.html", "quality.html", "study_results.html"}
TEMPLATES = [path for path in sorted(SERVICE.rglob("templates/*.html")) if path.name not in ENGLISH_PAGES]
SCRIPTS = [
    path
    for path in sorted(SERVICE.rglob("static/**/*.js"))
    if path.parent.name not in ("swagger-ui", "vendor", "admin", "quality")
    and path.name not in ("docs.js", "ohif.js")  # parts of other interfaces
]
TAGS = ["de", "es", "fr", "zh-Hans"]
PLACEHOLDERS = re.compile(r"%\(\w+\)s|%%|\{\w+\}|</?\w+[^>]*>")


@pytest.fixture(scope="module")
def sources() -> list[Catalog]:
    """The messages of the core, and of each feature with pages."""
    return [extract_messages(folder) for folder in folders()]


@pytest.fixture
def client(tmp_path: Path) -> FlaskClient:
    return create_app(tmp_path / "missing", Settings()).test_client()


def page(client: FlaskClient, address: str = "/", accept: str = "", cookie: str = "") -> str:
    """The tag of the language of a page."""
    if cookie:
        client.set_cookie("cbir-language", cookie)
    response = client.get(address, headers={"Accept-Language": accept, "Accept": "text/html"})
    tag = re.search(r'<html lang="([^"]*)"', response.text)
    assert tag
    assert response.headers["Content-Language"] == tag[1]
    assert {"Accept-Language", "Cookie"} <= set(response.vary)
    return tag[1]


def test_the_languages_that_there_are() -> None:
    assert list(languages()) == ["en", *TAGS]
    assert [language.title for language in languages().values()] == [
        "English",
        "Deutsch",
        "Español",
        "Français",
        "中文 (简体)",
    ]


@pytest.mark.parametrize("tag", TAGS)
def test_catalogues_are_complete(tag: str, sources: list[Catalog]) -> None:
    language = languages()[tag]
    for path, source in zip(language.paths, sources, strict=True):
        catalogue = language.read(path)
        known = {(message.context, *forms_of(message.id)) for message in catalogue if message.id}
        wanted = {(message.context, *forms_of(message.id)) for message in source if message.id}
        assert known == wanted, f"{path}: run make translations"
        unfinished = [m.id for m in catalogue if m.id and (m.fuzzy or not all(forms_of(m.string)))]
        assert not unfinished
        assert not catalogue.obsolete
    assert len(language.catalogue) > len(language.read(language.paths[0]))


@pytest.mark.parametrize("tag", TAGS)
def test_catalogues_translate_a_message_alike(tag: str) -> None:
    language = languages()[tag]
    for message in (message for path in language.paths for message in language.read(path)):
        if message.id:
            assert message.string == language.catalogue.get(message.id, message.context).string


@pytest.mark.parametrize("tag", TAGS)
def test_translations_have_the_values_and_elements_of_the_message(tag: str) -> None:
    language = languages()[tag]
    for message in language.catalogue:
        if not message.id:
            continue
        expected = set(PLACEHOLDERS.findall(forms_of(message.id)[-1]))
        forms = forms_of(message.string)
        assert len(forms) == (language.catalogue.num_plurals if message.pluralizable else 1), message.id
        for form in forms:
            assert set(PLACEHOLDERS.findall(form)) == expected, form


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_texts_of_templates_are_marked(path: Path) -> None:
    assert not list(unmarked_in_template(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_texts_of_scripts_are_marked(path: Path) -> None:
    assert not list(unmarked_in_script(path.read_text(encoding="utf-8")))


def test_unmarked_texts_are_found() -> None:
    template = """
      <p title="Hint">{{ _("Marked") }} and not</p>{{ "Yes" if x else _("No") }}<kbd>Esc</kbd>
      {% trans %}Marked too{% endtrans %} <a href="/x">{{ url_for("pages.index") }}</a>
    """
    assert list(unmarked_in_template(template)) == ["Hint", "and not", "Yes"]
    script = """
      // Not this one.
      box.title = `${n} left`; box.textContent = tr("Marked text here"); fail("The file is gone");
      element("p", "two classes", "Loading"); throw new RangeError("Not for people"); key === "Enter";
      trn("{count} Image is", "{count} Images are", 2);
    """
    assert list(unmarked_in_script(script)) == ['"The file is gone"', "`${n} left`", '"Loading"']


def test_the_browser_chooses(client: FlaskClient) -> None:
    assert page(client) == "en"
    assert page(client, accept="de-AT,de;q=0.9,en;q=0.5") == "de"
    assert page(client, accept="it,fr-CH;q=0.8,de;q=0.7") == "fr"
    assert page(client, accept="zh-CN") == "zh-Hans"
    assert page(client, accept="it,*;q=0.1") == "en"
    assert page(client, accept="de;q=0") == "en"


def test_a_choice_by_hand_goes_before_the_browser_and_is_kept(client: FlaskClient) -> None:
    assert page(client, cookie="es", accept="de") == "es"
    assert page(client, "/?lang=fr", accept="de") == "fr"
    assert client.get_cookie("cbir-language").value == "fr"  # type: ignore[union-attr]
    assert page(client, accept="de") == "fr"
    assert page(client, "/?lang=en", accept="de") == "en"
    assert page(client, accept="de") == "en"


@pytest.mark.parametrize("wrong", ["", "it", "../de", "de/..", "DE" * 5000])
def test_an_unknown_language_counts_as_no_choice(client: FlaskClient, wrong: str) -> None:
    response = client.get("/", query_string={"lang": wrong}, headers={"Accept-Language": "es"})
    assert '<html lang="es"' in response.text
    assert "Set-Cookie" not in response.headers
    client.set_cookie("cbir-language", "it")
    assert page(client, accept="es") == "es"


def test_a_page_in_a_language_and_its_menu(client: FlaskClient) -> None:
    text = client.get("/?lang=de&collection=x&collection=y").text
    assert "Keine solche Sammlung" in text
    assert 'title="Deutsch" aria-current="true">DE</a>' in text
    assert re.search(r'href="\?lang=fr&amp;collection=x&amp;collection=y" hreflang="fr" lang="fr"', text)
    assert f'href="{address_of("de")}"' in text
    assert 'id="catalogue"' not in client.get("/?lang=en").text


def test_pages_for_those_who_run_the_service_are_in_english(client: FlaskClient) -> None:
    client.set_cookie("cbir-language", "de")
    response = client.get("/admin")
    assert '<html lang="en"' in response.text
    assert response.headers["Content-Language"] == "en"
    assert ">Search</a>" in response.text  # the frame of the page too, and what its scripts say
    assert 'id="catalogue"' not in response.text
    assert 'id="languages"' not in response.text
    assert page(client, "/?lang=de") == "de"


def test_texts_of_scripts_are_cached_under_their_version(client: FlaskClient) -> None:
    response = client.get(address_of("de"))
    assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert "Set-Cookie" not in response.headers
    assert "Cookie" not in response.vary
    catalogue = response.get_json()
    assert catalogue["plurals"] == {"one": 0, "other": 1}
    assert catalogue["messages"]["Search with this image"] == ["Mit diesem Bild suchen"]
    assert catalogue["messages"]["{count} image"] == ["{count} Bild", "{count} Bilder"]
    assert "You are logged in" not in catalogue["messages"]  # of a template
    for address in ("/languages/it/1.json", "/languages/de/0.json", "/languages/de/..%2f.json"):
        assert client.get(address).status_code == 404


@pytest.mark.parametrize("tag", ["en", *TAGS])
def test_every_plural_category_of_a_language_has_a_form(tag: str) -> None:
    language = languages()[tag]
    plurals = language.script_catalogue.plurals
    assert set(plurals) == {language.locale.plural_form(n) for n in (0, 1, 2, 10, 10**6)}
    assert set(plurals.values()) <= set(range(language.catalogue.num_plurals))


def test_texts_of_views_are_in_the_language_of_the_request(client: FlaskClient) -> None:
    with client.application.test_request_context("/?lang=de"):
        assert current_language().tag == "de"
        assert gettext("image %(name)s", name="<1>") == "Bild <1>"
        assert gettext("100 %% of %(what)s", what="x") == "100 % of x"  # not in the catalogue
        assert ngettext("%(count)s image", "%(count)s images", 1) == "1 Bild"
        assert ngettext("%(count)s image", "%(count)s images", 12345) == "12.345 Bilder"


def test_numbers_and_times_are_written_as_in_the_language(client: FlaskClient) -> None:
    moment = datetime(2026, 11, 23, 14, 5, tzinfo=UTC)
    shown = {}
    for tag in languages():
        with client.application.test_request_context(f"/?lang={tag}"):
            shown[tag] = format_number(1234.5), format_day(moment.isoformat()), format_time(moment)
    assert shown["en"][:2] == ("1,234.5", "Nov 23, 2026")
    assert shown["de"] == ("1.234,5", "23.11.2026", "23.11.2026, 14:05:00")
    assert shown["zh-Hans"] == ("1,234.5", "2026年11月23日", "2026年11月23日 14:05:00")


def test_a_catalogue_without_some_messages_leaves_them_english(tmp_path: Path) -> None:
    language = Language("de", [tmp_path, tmp_path / "feature without messages"])
    path = language.paths[0]
    path.parent.mkdir()
    path.write_text(
        'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n'
        '#: static/page.js\nmsgid "One"\nmsgstr "Eins"\n\n#: static/page.js\nmsgid "Two"\nmsgstr ""\n',
        encoding="utf-8",
    )
    assert language.translations.gettext("One") == "Eins"
    assert language.translations.gettext("Two") == "Two"
    assert language.script_catalogue.messages == {"One": ["Eins"]}


def test_the_api_answers_in_english(client: FlaskClient) -> None:
    response = client.get("/v1/images/1", headers={"Accept-Language": "de"})
    assert response.get_json()["title"] == "Not ready"
    assert "Content-Language" not in response.headers
