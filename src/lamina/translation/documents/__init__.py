"""Documents: their sentences are translated, everything else is kept."""

from lamina.translation.documents.document import Document, Passage
from lamina.translation.documents.formats import FORMATS, Format, format_of_file, read_document

__all__ = ["FORMATS", "Document", "Format", "Passage", "format_of_file", "read_document"]
