"""Large pictures of the collection's images, and the filters that the page offers."""

import cv2
import numpy as np

from cbir.images import read_images
from cbir.store import Collection
from cbir.store.base import profile
from service.pages.page_parts import MAX_VALUES, label_filters_of


def test_picture_has_the_pixels_of_the_image(client, indexed, ids):
    with Collection(indexed) as collection:
        (image,) = read_images(collection.record(ids[0]).source)
    answer = client.get(f"/v1/images/{ids[0]}/picture")
    assert answer.mimetype == "image/png"
    visible = cv2.imdecode(np.frombuffer(answer.data, np.uint8), cv2.IMREAD_GRAYSCALE)
    np.testing.assert_array_equal(visible, image.pixels)


def test_picture_is_sent_once(client, ids):
    first = client.get(f"/v1/images/{ids[0]}/picture")
    again = client.get(f"/v1/images/{ids[0]}/picture", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304
    assert not again.data


def test_no_such_picture(client):
    answer = client.get("/v1/images/nothing-like-it/picture")
    assert answer.status_code == 404


def test_filters_are_counted_and_follow_the_collection(writable, ids):
    with Collection(writable) as collection:
        assert label_filters_of(collection)["label"] == [("even", 15), ("odd", 15)]
        assert "severity" not in label_filters_of(collection)  # another for every image
        source = collection.record(ids[0]).source
        with collection.writer() as writer:
            writer.relabel(source, {"label": "new", "note": "one; two"})
        assert label_filters_of(collection)["label"] == [("odd", 15), ("even", 14), ("new", 1)]
        assert "note" not in label_filters_of(collection)


def test_no_more_values_than_a_list_can_show(writable, ids):
    with Collection(writable) as collection:
        sources = [collection.record(image_id).source for image_id in ids]
        with collection.writer() as writer:
            for number, source in enumerate(sources):
                writer.relabel(source, {"ward": str(max(number, 1))})
        wards = label_filters_of(collection)["ward"]
        assert len(wards) == MAX_VALUES
        assert wards[0] == ("1", 2)


def test_filters_of_an_empty_collection(tmp_path):
    with Collection.create(tmp_path / "empty", profile.get("huang2012")) as collection:
        assert label_filters_of(collection) == {}
