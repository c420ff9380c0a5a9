"""Responses with vectors of images."""

from pydantic import BaseModel, Field

from cbir.search import example_values as example


class ImageVector(BaseModel):
    """Vector of an image."""

    image_id: str = Field(description="Id of the image.", examples=[example.IMAGE_ID])
    values: list[float] = Field(
        description="Values in 32 bits, in the fewest digits that distinguish them.",
        examples=[[0.12, 0.0, 3.5]],
    )


class ImageVectors(BaseModel):
    """Vectors of images."""

    profile: str = Field(description="Name of the profile that computed them.", examples=["lite0-max"])
    profile_hash: str = Field(
        description="Its hash; vectors can be compared where it is equal.", examples=["3f1c9d0a"]
    )
    raw: bool = Field(
        description="True for the values of the descriptor, as `vector` of a search takes them; false for normalised "
        "ones, whose Euclidean distances are those of searches.",
        examples=[True],
    )
    dimensions: int = Field(description="Number of values of a vector.", examples=[3])
    items: list[ImageVector] = Field(description="The vectors, in the order of the ids in the request.")
