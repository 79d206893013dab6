"""What the launcher and the program said, read with suspicion. Pure.

Whoever is on the node, or in the image, may print anything: a line counts only with the run's
token, once, as JSON of the agreed form and of bounded size.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import clean, excerpt, json_document

MOST_DEVICES = 4096
MOST_NODES = 4096

Word = Annotated[str, Field(max_length=500), AfterValidator(clean)]
"""One line for people: escape sequences may hide in JSON as ``\\u001b``."""
Sha256 = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
"""Empty: there is none."""

_STRICT = ConfigDict(extra="ignore", frozen=True, strict=True)


class Launched(BaseModel):
    """How the launcher fared with one container."""

    model_config = _STRICT

    status: Literal["ran", "late", "too_much", "alone", "no_engine", "no_image", "engine_error"]
    said: Word = ""
    cpus: int = Field(ge=1, le=1 << 20)
    image_id: Word = ""
    image_digests: Annotated[tuple[Word, ...], Field(max_length=100, strict=False)] = ()
    code: int | None = None
    stdout: Annotated[str, Field(max_length=5 << 20)] = ""
    stderr: Annotated[str, Field(max_length=64 << 10)] = ""
    left: Annotated[tuple[Word, ...], Field(max_length=1000, strict=False)] = ()
    """Containers of ours that could not be removed."""

    @property
    def last_words(self) -> str:
        """The end of what was said, for a reason."""
        lines = [one for one in clean(self.stderr or self.said or self.stdout).splitlines() if one]
        return excerpt(lines[-1].strip(), 300) if lines else "nothing"


class Device(BaseModel):
    """One device as the program saw it."""

    model_config = _STRICT

    index: int = Field(ge=0, lt=MOST_DEVICES)
    name: Word
    uuid: Word
    digest: Sha256
    error: Word
    ms: int = Field(ge=0)


class DevicesTold(BaseModel):
    """What the program said of the devices."""

    model_config = _STRICT

    mode: Literal["devices"]
    variant: Word
    error: Word
    versions: dict[Word, Word] = Field(default={}, max_length=20)
    devices: Annotated[tuple[Device, ...], Field(max_length=MOST_DEVICES, strict=False)] = ()


class NodesTold(BaseModel):
    """What the program said of the other nodes."""

    model_config = _STRICT

    mode: Literal["nodes"]
    variant: Word
    error: Word
    members: Annotated[tuple[Word, ...], Field(max_length=MOST_NODES, strict=False)] = ()
    digest: Sha256 = ""
    library: Word = ""
    versions: dict[Word, Word] = Field(default={}, max_length=20)


T = TypeVar("T", bound=BaseModel)


def read_launched(text: str, token: str) -> Launched:
    """Raises NotUnderstoodError when the launcher did not answer as agreed."""
    return _one(text, f"hfprov-launch {token} ", "The launcher", Launched)


def read_devices(text: str, token: str) -> DevicesTold:
    """Raises NotUnderstoodError when the program did not answer as agreed."""
    return _one(text, f"hfprov-smoke {token} ", "The program in the container", DevicesTold)


def read_nodes(text: str, token: str) -> NodesTold:
    """Raises NotUnderstoodError when the program did not answer as agreed."""
    return _one(text, f"hfprov-smoke {token} ", "The program in the container", NodesTold)


def _one(text: str, start: str, who: str, model: type[T]) -> T:
    # By newlines only: other line ends may be inside what was quoted.
    lines = [one for one in text.split("\n") if one.startswith(start)]
    if not lines:
        raise NotUnderstoodError(f"{who} gave no answer.")
    if len(lines) > 1:
        raise NotUnderstoodError(f"{who} gave {len(lines)} answers instead of one.")
    document: Any = json_document(lines[0].removeprefix(start))
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the answer"
        raise NotUnderstoodError(
            f"{who} gave an answer that is not as agreed: {excerpt(where, 80)}: {first['msg']}."
        ) from error
