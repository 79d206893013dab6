"""XML that a tool printed, read without trusting it.

The standard library's expat with what makes XML dangerous refused: entity declarations (expansion
bombs, external files), an internal DTD subset, and nesting that no tool produces. A document that
is cut off is refused: half a document is no document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.parsers import expat

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import clean

MAX_DEPTH = 64


class Element(Struct):
    """One element: its own text (stripped) and its children, in order."""

    tag: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def find(self, tag: str) -> Element | None:
        """The first child called ``tag``."""
        return next((child for child in self.children if child.tag == tag), None)

    def all(self, tag: str) -> list[Element]:
        """The children called ``tag``."""
        return [child for child in self.children if child.tag == tag]

    def value(self, tag: str) -> str:
        """The text of the first child called ``tag``; empty when there is none."""
        child = self.find(tag)
        return child.text if child is not None else ""

    def leaves(self, prefix: str = "", *, skip: frozenset[str] = frozenset()) -> Leaves:
        """Path below this element and text of each element without children."""
        for child in self.children:
            if child.tag in skip:
                continue
            path = f"{prefix}{child.tag}"
            if child.children:
                yield from child.leaves(f"{path}/", skip=skip)
            else:
                yield path, child.text


Leaves = Iterator[tuple[str, str]]


class _Builder:
    """Receives expat's events and builds the tree."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self._open: list[tuple[Element, list[str]]] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise NotUnderstoodError(f"The XML is nested more than {MAX_DEPTH} deep.")
        element = Element(tag, attributes)
        if self._open:
            self._open[-1][0].children.append(element)
        else:
            self.root = element
        self._open.append((element, []))

    def end(self, _tag: str) -> None:
        element, texts = self._open.pop()
        element.text = "".join(texts).strip()

    def characters(self, data: str) -> None:
        if self._open:
            self._open[-1][1].append(data)

    @staticmethod
    def doctype(_name: str, _system: str | None, _public: str | None, internal: int) -> None:
        # Entities can be declared nowhere else: an external DTD is never loaded.
        if internal:
            raise NotUnderstoodError("The XML has its own DTD declarations; they are not read.")


def xml_document(text: str) -> Element:
    """The root element of the XML document that is the whole text.

    Raises NotUnderstoodError when it is not well-formed, is cut off, declares entities, or is
    nested deeper than any tool's output is.
    """
    builder = _Builder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.characters
    parser.StartDoctypeDeclHandler = builder.doctype
    try:
        parser.Parse(clean(text).strip(), True)  # noqa: FBT003 - expat's positional "is final"
    except expat.ExpatError as error:
        raise NotUnderstoodError(f"The XML is not whole or not valid: {error}.") from None
    except UnicodeEncodeError:
        raise NotUnderstoodError("The XML has characters that are not Unicode text.") from None
    if builder.root is None:
        raise NotUnderstoodError("There is no XML document in the output.")
    return builder.root
