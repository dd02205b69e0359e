"""Weights that are whole, those that are not, and adapters; on tiny models of random weights."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import pytest

from medvrag_core.encoders.checkpoints import Checkpoint, find_checkpoint, load_model
from medvrag_core.errors import InputError, SettingsError


def test_nothing_and_nowhere_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="names no weights"):
        find_checkpoint("")
    with pytest.raises(InputError, match=r"holds no model.safetensors; give weights as safetensors"):
        find_checkpoint(str(tmp_path))


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(InputError, match=r"only pytorch_model.bin, which nothing here unpickles"):
        find_checkpoint(str(tmp_path))
    (tmp_path / "adapter_config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "adapter_model.bin").write_bytes(b"")
    with pytest.raises(InputError, match=r"holds no adapter_model.safetensors, only adapter_model.bin"):
        find_checkpoint(str(tmp_path))


@pytest.mark.parametrize("name", ["../elsewhere.safetensors", "weights.bin", "missing.safetensors"])
def test_an_index_names_safetensors_beside_it(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for file in (tmp_path / "elsewhere.safetensors", folder / "weights.bin"):
        file.write_bytes(b"")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}), encoding="utf-8")
    with pytest.raises(InputError, match="is not a safetensors file beside it"):
        find_checkpoint(str(folder))


def test_the_parts_of_a_model_in_parts_and_the_base_of_an_adapter_are_found(tmp_path: Path) -> None:
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    for folder in (base, adapter):
        folder.mkdir()
    for name in ("a.safetensors", "b.safetensors", "not_named.safetensors"):
        (base / name).write_bytes(b"")
    weight_map = {"x": "b.safetensors", "y": "a.safetensors", "z": "b.safetensors"}
    (base / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}), encoding="utf-8")
    (adapter / "adapter_model.safetensors").write_bytes(b"")
    (adapter / "tokenizer.json").write_bytes(b"")
    config = adapter / "adapter_config.json"
    config.write_text(json.dumps({"base_model_name_or_path": str(base), "revision": "abc"}), encoding="utf-8")
    found = find_checkpoint(str(adapter), "main")
    assert (found.name, found.revision, found.folder) == (str(adapter), "main", adapter)
    assert found.base is not None
    assert found.base.revision == "abc"
    assert [file.name for file in found.all_weights] == ["a.safetensors", "b.safetensors", "adapter_model.safetensors"]
    assert [file.name for file in found.processor_files] == ["tokenizer.json"]
    named = find_checkpoint(str(adapter), base_revision="def").base
    assert named is not None
    assert named.revision == "def"
    for broken, message in (("[]", "is not a JSON object"), ("{", "is not JSON"), ("{}", "names no base")):
        config.write_text(broken, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            find_checkpoint(str(adapter))


# --- with torch -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tiny_models import make_colqwen2_5, need

    need("colpali_engine", "peft")
    return make_colqwen2_5(tmp_path_factory.mktemp("colqwen") / "whole")


def loaded(folder: Path | str) -> object:
    from colpali_engine.models import ColQwen2_5

    return load_model(ColQwen2_5, find_checkpoint(str(folder)), device="cpu")


def answer(model: object) -> list[float]:
    import torch

    with torch.inference_mode():
        ids = torch.tensor([[300, 301, 302]])
        rows: list[float] = model(input_ids=ids, attention_mask=torch.ones_like(ids))[0].flatten().tolist()  # type: ignore[operator]
    return rows


@pytest.mark.gpu_path
def test_whole_weights_open_without_a_warning(whole: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model = loaded(whole)
    assert str(model.dtype) == "torch.float32"  # type: ignore[attr-defined]
    assert not model.training  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match=r"encoder.device: 'cuda:99' cannot be used"):
        load_model(type(model), find_checkpoint(str(whole)), device="cuda:99")


@pytest.mark.gpu_path
def test_a_file_that_lacks_a_weight_is_refused(whole: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(whole, tmp_path / "gap")
    weights = load_file(folder / "model.safetensors")
    del weights["custom_text_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"lacks 1 weights of a ColQwen2_5, for example custom_text_proj.weight"):
        loaded(folder)
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(InputError, match="the weights cannot be opened"):
        loaded(folder)


@pytest.mark.gpu_path
def test_a_projection_as_it_is_drawn_is_told(whole: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(whole, tmp_path / "drawn")
    weights = load_file(folder / "model.safetensors")
    drawn = torch.randn(weights["custom_text_proj.weight"].shape, generator=torch.Generator().manual_seed(0))
    weights |= {"custom_text_proj.weight": drawn * 0.02, "custom_text_proj.bias": torch.zeros(128)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.warns(UserWarning, match="'custom_text_proj' looks untrained"):
        loaded(folder)


@pytest.mark.gpu_path
@pytest.mark.parametrize("renamed", [("", ""), ("language_model.layers", "model.layers")])
def test_an_adapter_changes_its_base_as_colpali_engine_would(
    whole: Path, tmp_path: Path, renamed: tuple[str, str]
) -> None:
    from colpali_engine.models import ColQwen2_5
    from tiny_models import make_adapter

    folder = make_adapter(tmp_path / "adapter", whole, renamed=renamed)
    adapted = answer(loaded(folder))
    expected = ColQwen2_5.from_pretrained(folder, attn_implementation="eager").eval()
    assert adapted == answer(expected)
    assert adapted != answer(loaded(whole))


@pytest.mark.gpu_path
def test_an_adapter_whose_keys_fit_nowhere_or_that_was_never_trained_is_refused(whole: Path, tmp_path: Path) -> None:
    from tiny_models import make_adapter

    with pytest.raises(InputError, match=r"28 weights of the adapter fit nowhere in its base, for example decoder"):
        loaded(make_adapter(tmp_path / "stranger", whole, renamed=("language_model.layers", "decoder.layers")))
    with pytest.raises(InputError, match="the adapter was never trained"):
        loaded(make_adapter(tmp_path / "untrained", whole, trained=False))


@pytest.mark.gpu_path
def test_an_adapter_that_lacks_a_weight_is_refused(whole: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file
    from tiny_models import make_adapter

    folder = make_adapter(tmp_path / "gap", whole)
    weights = load_file(folder / "adapter_model.safetensors")
    del weights["base_model.model.custom_text_proj.lora_B.weight"]
    save_file(weights, folder / "adapter_model.safetensors")
    with pytest.raises(InputError, match=r"lacks 1 weights of an adapter, for example custom_text_proj.lora_B"):
        loaded(folder)


@pytest.mark.gpu_path
def test_what_no_hub_has_names_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    huggingface_hub = pytest.importorskip("huggingface_hub")

    def offline(*_: object, **__: object) -> str:
        raise huggingface_hub.errors.LocalEntryNotFoundError("offline")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(SettingsError, match=r"encoder.model: 'nobody/nothing' .* `hf download nobody/nothing`"):
        find_checkpoint("nobody/nothing")


@pytest.mark.gpu_path
def test_the_commit_of_a_hub_id_is_recorded(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huggingface_hub = pytest.importorskip("huggingface_hub")
    asked = {}

    def fetched(name: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        asked.update(name=name, revision=revision, patterns=allow_patterns)
        return str(shutil.copytree(whole, tmp_path / "0123abc"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetched)
    found = find_checkpoint("someone/something", "main")
    assert isinstance(found, Checkpoint)
    assert found.revision == "0123abc"
    assert asked["revision"] == "main"
    assert not any("bin" in pattern or ".py" in pattern or ".pt" in pattern for pattern in asked["patterns"])


@pytest.mark.gpu_path
def test_weights_of_another_family_are_refused(whole: Path) -> None:
    from colpali_engine.models import ColPali

    with pytest.raises(InputError, match="holds a model of the kind 'qwen2_5_vl', not 'paligemma'"):
        load_model(ColPali, find_checkpoint(str(whole)), device="cpu")
