"""The inspector beside a kernel: cases, pages and shadings go over the widget's comm when they are looked at."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from medvrag_core.errors import InputError, MedvragError
from medvrag_core.views.inspector.assets import asset, mount_html
from medvrag_core.views.inspector.source import CaseSource, fetch


class CaseInspector(anywidget.AnyWidget):  # type: ignore[misc] # anywidget has no types
    """Shows cases in JupyterLab or VS Code.

    In a saved notebook stands no case and no image, only the place in a book where the inspector appears.

    Parameters
    ----------
    source : of the cases
    place : what is open at first, and follows what a reader opens: ``run=demo&arm=medvrag&case=hcq-01&round=2``, with
        ``&with=page_single`` beside another arm
    """

    _esm = asset("inspector.js")
    _css = asset("inspector.css")
    place = traitlets.Unicode("").tag(sync=True)

    def __init__(self, source: CaseSource, *, place: str = "") -> None:
        super().__init__(place=place)
        self._source = source
        self.on_msg(self._answer)

    def _answer(self, _: Any, asked: Any, __: Any) -> None:
        """One request of the browser; whatever is wrong with it goes back as a sentence."""
        number = asked.get("id") if isinstance(asked, dict) else None
        try:
            address = asked["address"]
            if not isinstance(address, str):
                raise InputError("an address is text")
            found = fetch(self._source, address)
        except (MedvragError, OSError, KeyError, TypeError) as error:
            self.send({"id": number, "problem": str(error)})
            return
        if isinstance(found, bytes):
            self.send({"id": number}, [found])
        else:
            self.send({"id": number, "record": found.to_json()})

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The live widget, and for the book the place where its still twin appears."""
        bundle = super()._repr_mimebundle_(**kwargs) or ({}, {})
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, "text/html": mount_html("../", place=self.place)}, metadata
