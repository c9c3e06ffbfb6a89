"""Request and response bodies of `/v1`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from lamina.serving.options import MAX_BEAM, MAX_NBEST
from lamina.translation.documents import Format


class TranslateRequest(BaseModel):
    """Texts to translate, and options; the defaults come from the model's recipe."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    texts: Annotated[list[str], Field(min_length=1, description="Texts to translate; each has its own result.")]
    model: Annotated[str | None, Field(description="Model name from `/v1/models`; null selects the first.")] = None
    beam: Annotated[int | None, Field(ge=1, le=MAX_BEAM, description="Beam size.")] = None
    lenpen: Annotated[float | None, Field(ge=-10, le=10, description="Length penalty.")] = None
    nbest: Annotated[int, Field(ge=1, le=MAX_NBEST, description="Number of translations per sentence.")] = 1
    prefixes: Annotated[
        list[str] | None,
        Field(description="Prefix of each translation; a text with a prefix is translated as one sentence."),
    ] = None
    format: Annotated[
        Format | None,
        Field(description="Document format; layout and markup are kept. null translates line by line."),
    ] = None
    details: Annotated[
        bool, Field(description="Include attention, layer weights, gates and more for each sentence.")
    ] = False


class Candidate(BaseModel):
    """One of several candidate translations."""

    text: str
    score: float


class SentenceResult(BaseModel):
    """One sentence; `score` is log_prob / (length incl. eos)^lenpen. `details` adds more fields."""

    model_config = ConfigDict(extra="allow")

    source: str
    text: str
    score: float
    log_prob: float
    nbest: list[Candidate]


class TextResult(BaseModel):
    """One text of the request; its score is the mean of its sentences'."""

    text: str
    score: float
    nbest: list[Candidate]
    sentences: list[SentenceResult]


class TranslateResponse(BaseModel):
    """A result for each text, in order."""

    model: str
    results: list[TextResult]


class ModelInfo(BaseModel):
    """Information about a model."""

    name: str
    source: str
    target: str
    system: str
    task: str
    parameters: int
    encoder_layers: int
    decoder_layers: int
    decode: dict[str, Any]


class ModelsResponse(BaseModel):
    """All models; the first is the default."""

    models: list[ModelInfo]


class ErrorBody(BaseModel):
    """A code for programs, a message for people."""

    code: str
    message: str


class ErrorResponse(BaseModel):
    """Every response of `/v1` with a status other than 200."""

    error: ErrorBody
