"""Shipment: an app on its way to the executors.

They import it by its name, such as "myapp.jobs:app". One that lives in a notebook, or in the program
that was started, has no name there: its functions travel themselves.
"""

import io
import pickle
from typing import Any

from pyspark.cloudpickle import CloudPickler

from bucketq.app.app import App
from bucketq.errors import ConfigurationError


def pack(app: App) -> bytes:
    """Everything that it takes to have the app in another process. Raises ConfigurationError."""
    if _can_be_imported(app):
        return pickle.dumps(app)
    file = io.BytesIO()
    try:
        _Pickler(file, app).dump(app.__getstate__())  # type: ignore[no-untyped-call]
    except Exception as error:
        raise ConfigurationError(
            f"the app cannot be sent to the executors: {error}. Put it into a module that they can import."
        ) from error
    return file.getvalue()


def unpack(content: bytes) -> App:
    """The app, in this process. Raises ConfigurationError, or what its module raises."""
    unpickler = _Unpickler(io.BytesIO(content))
    found = unpickler.load()
    if isinstance(found, App):
        return found
    unpickler.app.__setstate__(found)
    return unpickler.app


def _can_be_imported(app: App) -> bool:
    try:
        # A program that was started is another one there.
        return not app.path.startswith("__main__:")
    except ConfigurationError:
        return False


class _Pickler(CloudPickler):
    """Its handlers, and whatever they mention, refer to the app itself: it is left out, and put in again."""

    def __init__(self, file: io.BytesIO, app: App) -> None:
        super().__init__(file)  # type: ignore[no-untyped-call]
        self._app = app

    def persistent_id(self, value: Any) -> str | None:
        return "app" if value is self._app else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.app = App.__new__(App)

    def persistent_load(self, name: Any) -> App:
        return self.app
