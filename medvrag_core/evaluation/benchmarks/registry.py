"""The registry of downloadable question sets: ``registry.yaml``, or a file of yours in the same form."""

from __future__ import annotations

from importlib import resources
from pathlib import Path, PurePosixPath

from pydantic import Field, TypeAdapter, ValidationError, field_validator

from medvrag_core.errors import InputError
from medvrag_core.records import Record, describe_validation_error
from medvrag_core.strict_json import read_text
from medvrag_core.strict_yaml import strict_yaml

OWN_REGISTRY = "registry.yaml"


class DataFile(Record):
    """One file to fetch.

    ``file`` is where it lies below the data folder, ``path`` where below the origin. ``bytes`` and ``sha256`` are
    those of the plain file: packers differ in the bytes they write, so a hash of packed bytes would prove less.
    """

    file: str
    path: str
    bytes: int = Field(ge=1)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")

    @field_validator("file")
    @classmethod
    def _stays_below_the_data_folder(cls, value: str) -> str:
        path = PurePosixPath(value)
        if path.is_absolute() or not path.parts or ".." in path.parts or not value.isprintable() or "\\" in value:
            raise ValueError("must be a path below the data folder")
        return value


class Benchmark(Record):
    """Files that belong together. ``sets`` gives the questions of every set that can be read from them."""

    name: str
    title: str
    sets: dict[str, int]
    licence: str
    origin: str
    files: tuple[DataFile, ...] = Field(min_length=1)

    @property
    def size(self) -> int:
        """Bytes of all files, unpacked."""
        return sum(file.bytes for file in self.files)

    def url(self, file: DataFile) -> str:
        """Where a file of this set is fetched from."""
        return self.origin + file.path


def load_registry(path: Path | None = None) -> list[Benchmark]:
    """Read the registry that ships with the package, or another file of the same form.

    Raises
    ------
    InputError : the file is missing or no YAML list of sets; set and field are named; a name repeats

    Examples
    --------
    >>> sum(find_benchmark(load_registry(), "mirage").sets.values())
    7663
    """
    if path is None:
        name = OWN_REGISTRY
        text = (resources.files("medvrag_core.evaluation.benchmarks") / name).read_text(encoding="utf-8")
    else:
        name, text = str(path), read_text(path)
    try:
        registry = TypeAdapter(list[Benchmark]).validate_python(strict_yaml(text, name))
    except ValidationError as error:
        raise InputError(f"{name}: {describe_validation_error(error)} (sets count from 0)") from None
    names = [benchmark.name for benchmark in registry]
    if repeated := [name_ for name_ in names if names.count(name_) > 1]:
        raise InputError(f"{name}: '{repeated[0]}' stands twice", way_out="give each set of files a name of its own")
    return registry


def find_benchmark(registry: list[Benchmark], name: str) -> Benchmark:
    """The entry of a name; InputError lists the names that exist."""
    for benchmark in registry:
        if benchmark.name == name:
            return benchmark
    known = ", ".join(benchmark.name for benchmark in registry)
    raise InputError(f"'{name}' is not in the registry", way_out=f"choose one of {known}")
