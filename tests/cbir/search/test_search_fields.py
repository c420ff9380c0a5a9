"""One description of the values of a search: every interface takes them from it."""

import inspect
import re
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from typer.models import OptionInfo

from cbir.api.collection_search import request_of
from cbir.api.commands.search_images import search_images
from cbir.errors import InvalidInput
from cbir.search import Request
from cbir.search.search_options import REQUEST_VALUES, SearchFields, SearchOptions
from cbir.store.records.filter_conditions import Condition
from service.client.search_methods import prepare_search
from service.http.search_parameters import ByImage, SearchBody

STATIC = Path(__file__).parents[3] / "service" / "static"
# Options of `cbir search` with other names, and values that the command does not offer
OF_COMMAND = {"examples": "images", "feedback": "feedback", "same_patient": None}
EXAMPLES: dict[str, Any] = {"feedback": {"a": 1.0}, "where": ["modality=CT"]}


def example_of(name: str) -> Any:
    return EXAMPLES.get(name) or (SearchFields.model_fields[name].examples or [None])[0]


@pytest.mark.parametrize("name", SearchFields.model_fields)
def test_python_describes_and_takes_every_value(name: str) -> None:
    assert name in SearchOptions.__annotations__
    assert re.search(rf"^ *{name} : ", SearchOptions.__doc__ or "", re.MULTILINE)
    request = request_of(SearchOptions(**{name: example_of(name)}))  # type: ignore[typeddict-item]
    assert getattr(request, name) != getattr(Request(), name) or name == "group_size"


@pytest.mark.parametrize("name", SearchFields.model_fields)
def test_the_client_sends_every_value(name: str) -> None:
    options = SearchOptions(**{name: example_of(name)})  # type: ignore[typeddict-item]
    assert name in prepare_search("id:a", options).fields
    assert name in prepare_search(b"image", options).fields


@pytest.mark.parametrize("name", SearchOptions.__annotations__)
def test_the_service_takes_every_option(name: str) -> None:
    assert name in ByImage.model_fields or name in SearchBody.model_fields


@pytest.mark.parametrize("name", sorted(SearchFields.model_fields.keys() - {"where", "feedback"}))
def test_the_service_describes_a_value_in_the_same_words(name: str) -> None:
    for model in (SearchBody, ByImage):
        assert model.model_fields[name].description == SearchFields.model_fields[name].description
        assert model.model_fields[name].metadata == SearchFields.model_fields[name].metadata


@pytest.mark.parametrize("name", SearchFields.model_fields)
def test_the_command_takes_every_value_within_the_same_bounds(name: str) -> None:
    option = OF_COMMAND.get(name, name)
    if option is None:
        return
    hint, parameter = (
        get_type_hints(search_images, include_extras=True)[option],
        inspect.signature(search_images).parameters,
    )
    if name not in REQUEST_VALUES:
        return
    assert parameter[option].default == SearchFields.model_fields[name].default
    typed = next(item for item in hint.__metadata__ if isinstance(item, OptionInfo))
    bounds = {"ge": typed.min, "le": typed.max}
    for item in SearchFields.model_fields[name].metadata:
        for bound in set(bounds) & {each for each in ("ge", "le") if hasattr(item, each)}:
            assert bounds[bound] == getattr(item, bound)


def test_the_page_sends_values_that_there_are() -> None:
    text = (STATIC / "search" / "search_fields.js").read_text(encoding="utf-8")
    names = re.findall(r"\bfields\.(\w+) = ", text)
    assert {"group_by", "exclude_own_study", "feedback", "anywhere"} <= set(names)
    for name in names:
        assert name in SearchBody.model_fields
        assert name in ByImage.model_fields


def test_the_client_writes_typed_conditions() -> None:
    typed = [Condition("modality", "=", "CT"), "grade>=2", Condition("site", "!?")]
    fields = prepare_search("id:a", SearchOptions(where=typed)).fields
    assert fields["where"] == ["modality=CT", "grade>=2", "!site?"]
    assert request_of(SearchOptions(where=typed)).where == typed
    with pytest.raises(InvalidInput, match="cannot be written"):
        prepare_search("id:a", SearchOptions(where=Condition("a=b", "=", "c")))


def test_the_client_sends_images_beside_a_vector_as_examples() -> None:
    assert prepare_search(["id:a", "id:b"], SearchOptions(vector=[1.0])).fields == {
        "examples": ["a", "b"],
        "vector": [1.0],
    }
    assert prepare_search(None, SearchOptions(text="knee", rerank="none")).fields == {"text": "knee"}
