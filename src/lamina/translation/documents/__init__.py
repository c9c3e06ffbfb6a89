"""Document translation: extract the translatable text and keep everything else unchanged."""

from lamina.translation.documents.document import Document, Passage
from lamina.translation.documents.formats import FORMATS, Format, format_of_file, read_document

__all__ = ["FORMATS", "Document", "Format", "Passage", "format_of_file", "read_document"]
