"""Articles from the fake services to documents: what is taken, what is left out and why, and what a second run asks."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medvrag_core.corpus.pmc.source import MOST_FAULTS, PmcSource
from medvrag_core.corpus.source import SourceDocument
from medvrag_core.errors import InputError, MedvragError, SettingsError
from medvrag_core.settings.pmc import PmcSettings

Make = Callable[..., PmcSettings]


def ids_file(folder: Path, *lines: str) -> str:
    path = folder / "ids.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def collected(settings: PmcSettings) -> tuple[dict[str, SourceDocument], dict[str, str]]:
    """Documents by article id, and reasons by the name in the ledger."""
    source = PmcSource(settings)
    documents = {document.article_id: document for document in source.documents()}
    return documents, {entry.file: entry.reason for entry in source.ledger()}


def test_an_article_is_fetched_whole_with_its_facts(pmc: Any, settings: Make, tmp_path: Path) -> None:
    pmc.add(11)
    documents, reasons = collected(settings(ids_file=ids_file(tmp_path, "PMC11")))
    assert reasons == {}
    document = documents["PMC11"]
    assert document.path.read_bytes() == pmc.files["PMC11.1/PMC11.1.pdf"]
    assert document.label == "PMC11.pdf"
    facts = document.facts
    assert (facts.title, facts.journal, facts.published) == ("On gout", "Journal of Joints", "2018-07-02")
    assert (facts.doi, facts.pmid, facts.version) == ("10.1000/j.11", "9011", 1)
    assert (facts.article_type, facts.licence) == ("review-article", "CC BY 4.0")
    assert facts.licence_url == "https://creativecommons.org/licenses/by/4.0/"
    assert facts.source_url == "https://pmc.ncbi.nlm.nih.gov/articles/PMC11.1/"
    named = "Lovelace AK. On gout. Journal of Joints, 2018. https://doi.org/10.1000/j.11"
    assert facts.attribution == f"{named}. {facts.source_url}"
    side = json.loads((document.path.parent / "PMC11.1.source.json").read_text())
    assert side["facts"]["licence"] == "CC BY 4.0"


def test_every_refusal_has_its_reason(pmc: Any, settings: Make, tmp_path: Path) -> None:
    pmc.add(1)
    pmc.add(2, is_pmc_openaccess=False, is_manuscript=True)
    pmc.add(3, is_retracted=True)
    pmc.add(4, pdf_url=None)
    pmc.add(5, licence="TDM", sentence="For text mining.")
    pmc.add(6, license_code=None, sentence="All rights reserved.", link="")
    pmc.add(7, pdf_url="s3://pmc-oa-opendata/PMC7.1/PMC7.1.pdf")
    pmc.add(8, pdf_url="s3://elsewhere/PMC8.1/PMC8.1.pdf?md5=" + "0" * 32)
    pmc.add(9, pdf_url="s3://pmc-oa-opendata/PMC8.1/PMC8.1.pdf?md5=" + "0" * 32)
    pmc.add(10, pmcid="PMC1")
    pmc.add(12, is_retracted=None)
    pmc.add(13, extra='<related-article related-article-type="retraction-forward" ext-link-type="pmc"/>')
    lines = [f"PMC{n}" for n in (*range(1, 11), 12, 13, 999)] + ["19000001", "banana", "PMC1"]
    documents, reasons = collected(settings(ids_file=ids_file(tmp_path, *lines)))
    assert set(documents) == {"PMC1"}
    assert reasons == {
        "PMC2": "not_open_access", "PMC3": "retracted", "PMC4": "no_pdf", "PMC5": "licence_not_allowed",
        "PMC6": "licence_not_allowed", "PMC7": "no_checksum", "PMC8": "bad_metadata", "PMC9": "bad_metadata",
        "PMC10": "bad_metadata", "PMC12": "bad_metadata", "PMC13": "retracted", "PMC999": "not_in_pmc",
        "19000001": "looks_like_pmid", "banana": "not_an_id", "PMC1": "duplicate_id",
    }  # fmt: skip
    assert pmc.asked("PMC2.1/") == pmc.asked("PMC3.1/") == 0, "what is refused by its metadata is not fetched"


def test_bc_35_one_of_three_is_usable(
    pmc: Any, settings: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pmc.add(7000001)
    pmc.add(7000002)
    pmc.fail("PMC7000002.1/PMC7000002.1.pdf", "html")
    documents, reasons = collected(settings(ids_file=ids_file(tmp_path, "19000001", "PMC7000001", "PMC7000002")))
    assert set(documents) == {"PMC7000001"}
    assert reasons == {"19000001": "looks_like_pmid", "PMC7000002": "not_a_pdf"}
    assert "1 of 3 usable" in caplog.text


@pytest.mark.parametrize(
    ("licences", "kept"),
    [
        ("commercial", {"PMC1", "PMC2"}),
        ("non-commercial", {"PMC1", "PMC2", "PMC3", "PMC4"}),
        (("CC BY-NC", "cc-by-nd"), {"PMC2", "PMC3"}),
    ],
)
def test_licences_by_class_or_by_list(pmc: Any, settings: Make, tmp_path: Path, licences: Any, kept: set[str]) -> None:
    for number, code in enumerate(("CC BY", "CC BY-ND", "CC BY-NC"), 1):
        pmc.add(number, licence=code)
    pmc.add(
        4, link="https://creativecommons.org/licenses/by/4.0/", sentence="No commercial exploitation. Licence: CC BY."
    )
    names = ids_file(tmp_path, "PMC1", "PMC2", "PMC3", "PMC4")
    source = PmcSource(settings(ids_file=names, licences=licences))
    assert {document.article_id for document in source.documents()} == kept
    entries = {entry.file: entry for entry in source.ledger()}
    if licences == "commercial":
        assert (entries["PMC4"].reason, entries["PMC4"].state) == ("licence_conflict", "quarantined")
        assert pmc.asked("PMC4.1/PMC4.1.pdf") == 0


def test_bc_36_a_conflict_is_used_locally_and_marked(pmc: Any, settings: Make, tmp_path: Path) -> None:
    pmc.add(4, sentence="This is an open access article; no commercial exploitation is permitted.")
    documents, _ = collected(settings(ids_file=ids_file(tmp_path, "PMC4")))
    assert documents["PMC4"].facts.licence.startswith("conflict: CC BY 4.0 against")


def test_unknown_licences_in_the_settings_are_refused(settings: Make) -> None:
    for licences in (("CC BY", "GPL"), ()):
        with pytest.raises(SettingsError, match=r"corpus\.pmc\.licences"):
            PmcSource(settings(query="gout", licences=licences))


def test_exactly_one_selection(settings: Make) -> None:
    for chosen in ({}, {"query": "gout", "ids_file": "x"}):
        with pytest.raises(SettingsError, match="exactly one"):
            PmcSource(settings(**chosen))


def test_the_newest_version_by_number_and_no_longer_id(pmc: Any, settings: Make, tmp_path: Path) -> None:
    for version in (1, 2, 9, 10):
        pmc.add(1, version)
    pmc.add(12, 30)
    documents, _ = collected(settings(ids_file=ids_file(tmp_path, "PMC1")))
    assert documents["PMC1"].facts.version == 10


def test_versions_come_in_pages(pmc: Any, settings: Make, tmp_path: Path) -> None:
    pmc.page_size = 3
    for version in range(1, 9):
        pmc.add(1, version)
    documents, _ = collected(settings(ids_file=ids_file(tmp_path, "PMC1")))
    assert documents["PMC1"].facts.version == 8
    assert pmc.asked("list-type=2") == 3


def test_a_version_can_be_asked_for(pmc: Any, settings: Make, tmp_path: Path) -> None:
    pmc.add(1, 1)
    pmc.add(1, 2)
    documents, reasons = collected(settings(ids_file=ids_file(tmp_path, "PMC1.1", "PMC1", "PMC1.7", "PMC5.2")))
    assert documents["PMC1"].facts.version == 1
    assert reasons == {"PMC1": "duplicate_id", "PMC1.7": "duplicate_id", "PMC5": "not_in_pmc"}


def test_a_version_that_was_asked_for_is_not_taken_for_the_newest(pmc: Any, settings: Make, tmp_path: Path) -> None:
    pmc.add(1, 1)
    pmc.add(1, 2)
    collected(settings(ids_file=ids_file(tmp_path, "PMC1.1")))
    documents, _ = collected(settings(ids_file=ids_file(tmp_path, "PMC1")))
    assert documents["PMC1"].facts.version == 2


def test_if_the_newest_version_is_retracted_no_older_one_is_taken(pmc: Any, settings: Make, tmp_path: Path) -> None:
    pmc.add(1, 1)
    pmc.add(1, 2, is_retracted=True)
    pmc.add(2)
    documents, reasons = collected(settings(ids_file=ids_file(tmp_path, "PMC1", "PMC2")))
    assert (set(documents), reasons) == ({"PMC2"}, {"PMC1": "retracted"})


def test_ids_of_all_kinds_name_one_article_once(pmc: Any, settings: Make, tmp_path: Path) -> None:
    pmc.add(1)
    pmc.add(2)
    pmc.converted = {"9002": "PMC2", "10.1000/j.2": "PMC2"}
    names = ids_file(tmp_path, "PMC1", "PMID:9002", "doi:10.1000/J.2", "PMID:77")
    documents, reasons = collected(settings(ids_file=names))
    assert set(documents) == {"PMC1", "PMC2"}
    assert reasons == {"10.1000/j.2": "duplicate_id", "PMID:77": "not_in_pmc"}
    pmc.requests.clear()
    assert collected(settings(ids_file=names)) == (documents, reasons)
    assert pmc.requests == [], "what the converter said is kept, too"


# --- faults of files ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("status:404", "missing_file"), ("status:403", "fetch_rejected"), ("status:500", "fetch_failed"),
        ("html", "not_a_pdf"), ("empty", "not_a_pdf"), ("truncate", "fetch_failed"), ("short", "checksum_mismatch"),
        ("flip", "checksum_mismatch"), ("endless", "too_large"), ("packed", "fetch_rejected"),
        ("wait:99999", "fetch_failed"), ("redirect:http://169.254.169.254/latest/meta-data", "fetch_rejected"),
        ("redirect:http://127.0.0.1:9/x", "fetch_rejected"), ("redirect:file:///etc/passwd", "fetch_rejected"),
        ("redirect:https://evil.example.org/x.pdf", "fetch_rejected"),
    ],
)  # fmt: skip
def test_a_fault_costs_its_article_alone(pmc: Any, settings: Make, tmp_path: Path, fault: str, reason: str) -> None:
    pmc.add(1)
    pmc.add(2)
    pmc.fail("PMC1.1/PMC1.1.pdf", fault)
    chosen = settings(ids_file=ids_file(tmp_path, "PMC1", "PMC2"), max_file_mb=1)
    documents, reasons = collected(chosen)
    assert (set(documents), reasons) == ({"PMC2"}, {"PMC1": reason})
    left = [path.name for path in (Path(chosen.cache) / "articles" / "PMC1").iterdir()]
    assert sorted(left) == ["PMC1.1.json", "PMC1.1.xml", "newest"], "no part of a bad file stays"
    pmc.faults.clear()
    documents, reasons = collected(chosen)
    assert (set(documents), reasons) == ({"PMC1", "PMC2"}, {}), "nothing about a fault is remembered"


@pytest.mark.parametrize("fault", ["truncate", "short", "flip", "html", "status:503", "wait:0", "status:429"])
def test_a_passing_fault_costs_a_try(pmc: Any, settings: Make, tmp_path: Path, fault: str) -> None:
    pmc.add(1)
    pmc.fail("PMC1.1/PMC1.1.pdf", fault, times=2)
    documents, reasons = collected(settings(ids_file=ids_file(tmp_path, "PMC1")))
    assert (set(documents), reasons) == ({"PMC1"}, {})
    assert pmc.asked("PMC1.1/PMC1.1.pdf") == 3


def test_a_slow_drip_is_cut_by_the_wall_clock(pmc: Any, settings: Make, tmp_path: Path) -> None:
    pmc.add(1)
    pmc.add(2)
    pmc.fail("PMC1.1/PMC1.1.pdf", "drip")
    chosen = settings(ids_file=ids_file(tmp_path, "PMC1", "PMC2"), seconds_per_file=0.5, attempts=1)
    documents, reasons = collected(chosen)
    assert (set(documents), reasons) == ({"PMC2"}, {"PMC1": "fetch_failed"})


@pytest.mark.parametrize("fault", ["status:404", "flip", "endless", "body:<a", "body:no xml"])
def test_without_a_jats_file_an_article_is_taken_and_told(
    pmc: Any, settings: Make, tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medvrag_core.corpus.pmc.article.LARGEST_JATS", 1 << 20)
    metadata = pmc.add(1)
    pmc.fail("PMC1.1/PMC1.1.xml", fault)
    documents, reasons = collected(settings(ids_file=ids_file(tmp_path, "PMC1")))
    assert reasons == {"PMC1.pdf": "no_jats"}
    facts = documents["PMC1"].facts
    assert (facts.title, facts.licence, facts.pmid) == (metadata["title"], "CC BY", "9001")
    assert facts.attribution == "", "the pages are then asked for a licence sentence"


def test_a_jats_file_of_another_article_is_not_believed(pmc: Any, settings: Make, tmp_path: Path) -> None:
    pmc.add(2)
    pmc.add(1, xml=pmc.files["PMC2.1/PMC2.1.xml"])
    documents, reasons = collected(settings(ids_file=ids_file(tmp_path, "PMC1")))
    assert reasons == {"PMC1.pdf": "no_jats"}
    assert documents["PMC1"].facts.doi == "10.1000/j.1"


def test_when_the_network_fails_the_fetch_stops_and_blames_no_article(pmc: Any, settings: Make, tmp_path: Path) -> None:
    numbers = range(1, MOST_FAULTS + 5)
    for number in numbers:
        pmc.add(number)
    chosen = settings(ids_file=ids_file(tmp_path, *(f"PMC{n}" for n in numbers)), attempts=1)
    pmc.fail("metadata/", "status:503")
    with pytest.raises(MedvragError, match=rf"{MOST_FAULTS} articles in a row.*status 503.*run the same command again"):
        collected(chosen)
    pmc.faults.clear()
    documents, reasons = collected(chosen)
    assert (len(documents), reasons) == (len(numbers), {})


@pytest.mark.parametrize("fault", ["html", "body:[]", "empty"])
def test_a_page_in_place_of_the_metadata_is_the_network_s_fault(
    pmc: Any, settings: Make, tmp_path: Path, fault: str
) -> None:
    pmc.add(1)
    pmc.add(2)
    pmc.fail("metadata/PMC1", fault)
    chosen = settings(ids_file=ids_file(tmp_path, "PMC1", "PMC2"))
    assert collected(chosen)[1] == {"PMC1": "fetch_rejected"}
    pmc.faults.clear()
    assert collected(chosen)[1] == {}


def test_a_cache_that_cannot_be_written_is_told(
    pmc: Any, settings: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pmc.add(1)
    names = ids_file(tmp_path, "PMC1")
    with pytest.raises(MedvragError, match="cannot be written"):
        collected(settings(ids_file=names, cache=names))
    write = Path.open

    def full(self: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if mode == "wb" and ".pdf" in self.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(MedvragError, match=r"No space left.*finished articles are kept"):
        collected(settings(ids_file=names))


def test_no_usable_article_is_an_error_that_counts_reasons(pmc: Any, settings: Make, tmp_path: Path) -> None:
    pmc.add(1, is_retracted=True)
    with pytest.raises(InputError, match="no usable article: 1 retracted, 1 not_in_pmc"):
        collected(settings(ids_file=ids_file(tmp_path, "PMC1", "PMC2")))


# --- selections --------------------------------------------------------------------------


def test_a_query_takes_the_first_usable_articles_and_tells_of_the_rest(
    pmc: Any, settings: Make, tmp_path: Path
) -> None:
    pmc.found = [5, 3, 9, 1, 7]
    for number in pmc.found:
        pmc.add(number, is_retracted=number == 3)
    source = PmcSource(settings(query="gout AND review[pt]", most_articles=2, parallel=4))
    assert [document.article_id for document in source.documents()] == ["PMC5", "PMC9"]
    assert [(entry.file, entry.reason) for entry in source.ledger()] == [
        ("PMC3", "retracted"),
        ("pmc:gout AND review[pt]", "article_limit"),
    ]
    assert pmc.asked("metadata/PMC1.1") == 0
    path, _ = next(request for request in pmc.requests if "esearch" in request[0])
    for part in (
        "db=pmc",
        "(gout+AND+review[pt])+AND+open_access[filter]",
        "tool=medvrag",
        "email=someone@example.org",
    ):
        assert part in path


def test_the_choice_does_not_depend_on_how_many_are_fetched_side_by_side(
    pmc: Any, settings: Make, tmp_path: Path
) -> None:
    pmc.found = list(range(1, 30))
    for number in pmc.found:
        pmc.add(number, is_retracted=number % 3 == 0)
    stories = []
    for parallel in (1, 7):
        source = PmcSource(settings(query="q", most_articles=8, parallel=parallel, cache=str(tmp_path / str(parallel))))
        stories.append(([document.article_id for document in source.documents()], source.ledger()))
    assert stories[0] == stories[1]


def test_a_search_is_kept_so_that_the_same_command_gives_the_same_corpus(pmc: Any, settings: Make) -> None:
    pmc.found = [1, 2]
    for number in (1, 2, 3):
        pmc.add(number)
    first = collected(settings(query="gout"))
    pmc.found = [3, 1, 2]
    assert collected(settings(query="gout")) == first
    assert set(collected(settings(query="gout again"))[0]) == {"PMC1", "PMC2", "PMC3"}


def test_what_is_there_and_right_is_not_fetched_again(pmc: Any, settings: Make, tmp_path: Path) -> None:
    pmc.add(1)
    pmc.add(2)
    chosen = settings(ids_file=ids_file(tmp_path, "PMC1", "PMC2"))
    first, _ = collected(chosen)
    pmc.add(1, 2)
    pmc.requests.clear()
    again, _ = collected(chosen)
    assert (again, pmc.requests) == (first, []), "a cache is a snapshot, which a newer version does not change"
    path = first["PMC1"].path
    path.write_bytes(path.read_bytes()[:-1])
    collected(chosen)
    assert [request[0] for request in pmc.requests] == ["/PMC1.1/PMC1.1.pdf"]
    assert path.read_bytes() == pmc.files["PMC1.1/PMC1.1.pdf"]


def test_other_licences_are_judged_anew_from_what_is_there(pmc: Any, settings: Make, tmp_path: Path) -> None:
    pmc.add(1)
    pmc.add(2, licence="CC BY-NC")
    names = ids_file(tmp_path, "PMC1", "PMC2")
    assert set(collected(settings(ids_file=names))[0]) == {"PMC1", "PMC2"}
    assert set(collected(settings(ids_file=names, licences="commercial"))[0]) == {"PMC1"}


def test_one_fetch_a_cache(pmc: Any, settings: Make, tmp_path: Path) -> None:
    from filelock import FileLock

    chosen = settings(ids_file=ids_file(tmp_path, "PMC1"))
    Path(chosen.cache).mkdir()
    with FileLock(Path(chosen.cache) / ".lock"), pytest.raises(InputError, match="another process is fetching"):
        collected(chosen)


def test_killed_in_the_middle_of_a_file_the_fetch_goes_on(pmc: Any, settings: Make, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        pmc.add(number)
    chosen = settings(ids_file=ids_file(tmp_path, "PMC1", "PMC2", "PMC3"), parallel=1)
    pmc.fail("PMC2.1/PMC2.1.pdf", "drip")
    script = (
        "import sys; from medvrag_core.corpus.pmc.source import PmcSource\n"
        "from medvrag_core.settings.pmc import PmcSettings\n"
        "list(PmcSource(PmcSettings.model_validate_json(sys.argv[1])).documents())"
    )
    child = subprocess.Popen([sys.executable, "-c", script, chosen.model_dump_json()])
    home = Path(chosen.cache) / "articles" / "PMC2"
    deadline = time.monotonic() + 60
    while not any(path.name.endswith(".part") and path.stat().st_size for path in home.glob(".*")):
        # What was written so far may still lie in a buffer; the request itself tells where the child is.
        if pmc.asked("PMC2.1/PMC2.1.pdf"):
            break
        assert child.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert not (home / "PMC2.1.pdf").exists()
    (Path(chosen.cache) / "packages" / ".x.1.part").mkdir(parents=True)
    pmc.faults.clear()
    pmc.requests.clear()
    documents, reasons = collected(chosen)
    assert (set(documents), reasons) == ({"PMC1", "PMC2", "PMC3"}, {})
    assert pmc.asked("PMC1.1/") == 0, "the finished article is not fetched again"
    assert not list(Path(chosen.cache).rglob("*.part"))
