"""Weights of page encoders: found, pinned, hashed, opened, and checked to be really loaded.

Only safetensors are opened, and never code that comes with the weights. transformers fills what a file lacks with
random numbers and merely logs it; vectors of such a model still have unit length and look like any others, so a model
whose keys do not all match is refused. Covers whole checkpoints and LoRA adapters on a base, such as
vidore/colqwen2.5-v0.2.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvrag_core.errors import InputError, SettingsError

_WHOLE, _ADAPTER, _ADAPTER_CONFIG = "model.safetensors", "adapter_model.safetensors", "adapter_config.json"
_INDEX = f"{_WHOLE}.index.json"
_FETCHED = ("*.json", "*.safetensors", "*.txt", "*.jinja", "*.model")
_READ_BY_PROCESSORS = (
    *("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json", "chat_template.*"),
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.*", "merges.txt"),
)


@dataclass(frozen=True)
class Checkpoint:
    """Files of a model on this machine.

    Attributes
    ----------
    name : as the settings give it
    revision : commit of the files from a hub; what the settings say for a folder
    folder : of the processor, and of the weights or the adapter
    weights : files of weights in ``folder``
    base : the checkpoint that an adapter changes
    """

    name: str
    revision: str
    folder: Path
    weights: tuple[Path, ...]
    base: Checkpoint | None = None

    @property
    def all_weights(self) -> tuple[Path, ...]:
        """Every file of weights that is opened, those of the base first."""
        return (*(self.base.all_weights if self.base else ()), *self.weights)

    @property
    def processor_files(self) -> tuple[Path, ...]:
        """Files that say how images are cut and texts become tokens."""
        return tuple(sorted(found for name in _READ_BY_PROCESSORS for found in self.folder.glob(name)))


def find_checkpoint(name: str, revision: str = "", base_revision: str = "", *, field: str = "encoder") -> Checkpoint:
    """Files of a folder, or of a hub id at a revision, fetched where they are not here yet.

    Parameters
    ----------
    name : folder, or hub id
    revision : commit, tag or branch of the hub id; empty for its main branch, whose commit is then recorded
    base_revision : the same for the base of an adapter; empty for what its file says
    field : of the settings, for messages

    Raises
    ------
    SettingsError : nothing is named, or neither the folder nor the hub id can be had
    InputError : the folder holds no weights as safetensors, or a file in it is not what it should be
    """
    if not name:
        raise SettingsError(f"{field}.model: names no weights", way_out="set it to a hub id or to a folder")
    folder = Path(name) if Path(name).is_dir() else _fetch(name, revision, field)
    # Files of a hub id lie in a folder named after the commit.
    commit = revision if Path(name).is_dir() else folder.name
    whole = _whole_weights(folder)
    adapter = folder / _ADAPTER_CONFIG
    if not adapter.is_file():
        if not whole:
            raise _no_safetensors(folder, _WHOLE)
        return Checkpoint(name, commit, folder, whole)
    if not (folder / _ADAPTER).is_file():
        raise _no_safetensors(folder, _ADAPTER)
    # A folder that holds an adapter and a whole model is its own base.
    base = Checkpoint(name, commit, folder, whole) if whole else _base_of(adapter, base_revision, field)
    return Checkpoint(name, commit, folder, (folder / _ADAPTER,), base)


def load_model(model_class: Any, found: Checkpoint, *, device: str) -> Any:
    """The model of a checkpoint, in bfloat16 on a GPU and in float32 elsewhere; all its weights come from its files.

    Parameters
    ----------
    model_class : a class of transformers or of colpali-engine
    device : as torch names it

    Raises
    ------
    InputError : the files lack weights of the model, or hold others, or cannot be read
    SettingsError : the device is not there
    """
    import torch
    from safetensors import SafetensorError  # type: ignore[import-not-found]

    whole, on_gpu = found.base or found, device.startswith("cuda")
    try:
        kind, wanted = _read_object(whole.folder / "config.json").get("model_type"), model_class.config_class.model_type
        if kind != wanted:
            raise InputError(
                f"{whole.folder}: holds a model of the kind '{kind}', not '{wanted}'",
                way_out="set encoder.name to the family of the weights",
            )
        model, loaded = model_class.from_pretrained(
            whole.folder,
            dtype=torch.bfloat16 if on_gpu else torch.float32,
            # On the CPU the faster kernel gives NaN for rows padded on the left.
            attn_implementation="sdpa" if on_gpu else "eager",
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
        _refuse_gaps(whole, loaded["missing_keys"], loaded["mismatched_keys"], f"a {model_class.__name__}")
        if found.base:
            _add_adapter(model, found)
        _fill_tied(model, whole)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"{found.folder}: the weights cannot be opened ({_first_line(error)})",
            way_out=f"name weights of a {model_class.__name__}, and fetch them again if they are damaged",
        ) from None
    if found.base is None:
        _warn_of_untrained(model, found)
    try:
        return model.to(device).eval()
    except (AssertionError, RuntimeError) as error:
        raise SettingsError(
            f"encoder.device: '{device}' cannot be used ({_first_line(error)})", way_out="set it to cpu"
        ) from None


def _add_adapter(model: Any, found: Checkpoint) -> None:
    """Put the adapter on its base, under the renamings that colpali-engine knows for older adapters.

    ``from_pretrained`` would do both steps at once, but then keeps to itself what the base lacks, and falls back to a
    pickle where an adapter has no safetensors.
    """
    from transformers.conversion_mapping import get_model_conversion_mapping

    renamed = getattr(type(model), "_checkpoint_conversion_mapping", None)
    mapping = get_model_conversion_mapping(model, key_mapping=renamed)
    loaded = model.load_adapter(str(found.folder), weight_mapping=mapping, use_safetensors=True)
    strangers = sorted(key for key in loaded.unexpected_keys if "lm_head" not in key)
    if strangers:
        raise InputError(
            f"{found.folder}: {len(strangers)} weights of the adapter fit nowhere in its base, for example "
            f"{strangers[0]}",
            way_out="use the releases of transformers, peft and colpali-engine that this project names",
        )
    _refuse_gaps(found, loaded.missing_keys, loaded.mismatched_keys, "an adapter")
    second = [weights for name, weights in model.named_parameters() if "lora_B" in name]
    if second and not any(bool(weights.any()) for weights in second):
        raise InputError(f"{found.folder}: the adapter was never trained", way_out="name weights that were trained")


def _refuse_gaps(found: Checkpoint, missing: Any, mismatched: Any, kind: str) -> None:
    gaps = sorted({str(key) for key in missing} | {str(entry[0]) for entry in mismatched})
    if gaps:
        raise InputError(
            f"{found.folder}: lacks {len(gaps)} weights of {kind}, for example {gaps[0]}",
            way_out="name weights that were trained for late interaction, or set encoder.name to their family",
        )


def _fill_tied(model: Any, found: Checkpoint) -> None:
    """Tie what is tied in the backbone alone (ColPali passes over its output layer, and it stays without numbers)."""
    for part in model.children():
        if any(weights.is_meta for weights in part.parameters()) and hasattr(part, "tie_weights"):
            part.tie_weights()
    _refuse_gaps(found, [name for name, weights in model.named_parameters() if weights.is_meta], [], "its model")


def _warn_of_untrained(model: Any, found: Checkpoint) -> None:
    """Tell a projection that looks as drawn by transformers: bias of zeros, deviation of the initial law.

    The bases of vidore's adapters are such: whole, with nothing missing, and of no use alone. It cannot be refused,
    since a merged adapter that changed the projection very little looks the same.
    """
    for name, layer in model.named_children():
        weight, bias = getattr(layer, "weight", None), getattr(layer, "bias", None)
        if weight is None or bias is None or weight.ndim != 2 or bool(bias.any()):
            continue
        drawn = float(model.config.get_text_config().initializer_range)
        # The deviation of n draws is itself off by 1/sqrt(2n); four times that is rarely passed by chance.
        if abs(float(weight.float().std()) / drawn - 1) < 4 * (2 * weight.numel()) ** -0.5:
            warnings.warn(
                f"{found.folder}: the projection '{name}' looks untrained; these may be the weights of a base whose "
                "adapter is missing",
                stacklevel=3,
            )


def _fetch(name: str, revision: str, field: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=list(_FETCHED)))
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise SettingsError(
            f"{field}.model: '{name}' is no folder here and could not be fetched ({_first_line(error)})",
            way_out=f"give a folder, or fetch it once with `hf download {name}`",
        ) from None


def _whole_weights(folder: Path) -> tuple[Path, ...]:
    """Files of a whole model, as its index names them; empty where the folder holds none."""
    index = folder / _INDEX
    if not index.is_file():
        return (folder / _WHOLE,) if (folder / _WHOLE).is_file() else ()
    names = _read_object(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise InputError(f"{index}: names no files", way_out="fetch the weights again")
    files = tuple(folder / name for name in sorted(set(names.values())))
    for file in files:
        if file.parent != folder or file.suffix != ".safetensors" or not file.is_file():
            raise InputError(
                f"{index}: '{file.name}' is not a safetensors file beside it", way_out="fetch the weights again"
            )
    return files


def _base_of(adapter: Path, revision: str, field: str) -> Checkpoint:
    config = _read_object(adapter)
    name = config.get("base_model_name_or_path")
    if not isinstance(name, str) or not name:
        raise InputError(f"{adapter}: names no base", way_out="name weights that say what they change")
    own = config.get("revision")
    base = find_checkpoint(name, revision or (own if isinstance(own, str) else ""), field=field)
    if base.base:
        raise InputError(f"{adapter}: its base is an adapter itself", way_out="merge that adapter into its base")
    return base


def _read_object(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file}: is not JSON ({error})", way_out="fetch it again") from None
    if not isinstance(value, dict):
        raise InputError(f"{file}: is not a JSON object", way_out="fetch it again")
    return value


def _no_safetensors(folder: Path, name: str) -> InputError:
    pickled = sorted(file.name for file in folder.glob("*.bin"))
    beside = f", only {pickled[0]}, which nothing here unpickles" if pickled else ""
    return InputError(f"{folder}: holds no {name}{beside}", way_out="give weights as safetensors")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
