from __future__ import annotations

import os
from pathlib import Path

import pytest

from medvrag_core.errors import SettingsError
from medvrag_core.profiles.load import load_profile, profile_names
from medvrag_core.settings import EncoderSettings, Profile, answering_settings, differences, fingerprint


@pytest.mark.parametrize("name", profile_names())
def test_every_shipped_profile_resolves_and_says_what_it_is(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert profile.note


def test_the_paper_defaults() -> None:
    profile = load_profile("a100")
    assert (profile.index.centroids, profile.index.candidates) == (8, 2_000)
    assert (profile.filter.shard_size, profile.filter.map_keep, profile.filter.keep) == (256, 25, 100)
    assert (profile.loop.max_rounds, profile.loop.pages_shown, profile.loop.summaries_shown) == (3, 10, 20)
    assert profile.corpus.dpi == 300
    assert profile.encoder.query_prefix == "Query: "


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return str(path)


def test_a_misspelt_key_is_refused_with_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"mine.yaml: unknown key 'loop.max_round' \(did you mean 'max_rounds'\?\)"):
        load_profile(write(tmp_path, "loop: {max_round: 2}"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("loop: {max_rounds: 0}", "'loop.max_rounds'"),
        ("- a", "must be a mapping"),
        ("a: [", "not valid YAML"),
        ("extends: nothing", "'nothing' does not exist"),
        ("encoder: {name: clip}", "'encoder.name'"),
        ("a: !!python/object/apply:os.system ['true']", "not valid YAML"),
    ],
)
def test_bad_profiles_are_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load_profile(write(tmp_path, text))


def test_a_profile_that_is_not_there() -> None:
    with pytest.raises(SettingsError, match="did you mean 'cpu'"):
        load_profile("cpus")
    with pytest.raises(SettingsError, match="no such profile file"):
        load_profile("nowhere.yaml")


def test_a_saved_profile_loads_back_unchanged(tmp_path: Path) -> None:
    import yaml

    profile = load_profile("cpu", {"loop.max_rounds": 2})
    path = tmp_path / "profile.yaml"
    path.write_text(yaml.safe_dump(profile.model_dump(mode="json")))
    assert load_profile(str(path)) == profile


def test_any_field_changes_the_fingerprint_and_is_named() -> None:
    base, changed = load_profile("cpu"), load_profile("cpu", {"index.shortlist": 7})
    assert fingerprint(base) != fingerprint(changed)
    assert differences(base.model_dump(), changed.model_dump()) == ["index.shortlist: 4000 -> 7"]
    assert isinstance(base, Profile)


def test_how_pages_are_loaded_shapes_no_answer() -> None:
    slow, quick = (Profile(name="p", encoder=EncoderSettings(loaders=n, read_ahead=n)) for n in (1, 16))
    other = Profile(name="p", encoder=EncoderSettings(loaders=1, read_ahead=1, vectors_per_page=50))
    assert answering_settings(slow) == answering_settings(quick) != answering_settings(other)


def test_without_a_number_of_workers_each_core_that_may_be_used_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 7}, raising=False)
    assert Profile(name="p").processes == 3
    assert Profile(name="p", workers=2).processes == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert Profile(name="p").processes == (os.cpu_count() or 1)


@pytest.mark.parametrize("written", ["off", '"off"'])
def test_ocr_is_switched_off_by_the_word_that_yaml_takes_for_false(written: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f"corpus: {{ocr: {written}}}", encoding="utf-8")
    assert load_profile(str(tmp_path / "mine.yaml")).corpus.ocr == "off"
    with pytest.raises(SettingsError, match=r"corpus\.ocr"):
        (tmp_path / "mine.yaml").write_text("corpus: {ocr: on}", encoding="utf-8")
        load_profile(str(tmp_path / "mine.yaml"))
