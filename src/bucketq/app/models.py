"""Models: pydantic's, which msgspec does not know by itself. These are the hooks that tell it."""

from typing import Any


def to_plain(value: Any) -> Any:
    """What JSON can hold of a model. Raises TypeError for anything else."""
    # pydantic is not needed to know its models.
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"a {type(value).__name__} is nothing that JSON can hold")


def to_model(type_: type, value: Any) -> Any:
    """A model made of what JSON held. Raises TypeError, or pydantic's ValueError."""
    if hasattr(type_, "model_validate"):
        return type_.model_validate(value)
    raise TypeError(f"a {type_.__name__} cannot be made of JSON")
