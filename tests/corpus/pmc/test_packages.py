"""Packages of the old layout: what real ones give, and what hostile ones cannot do."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_pmc import LINKS, jats
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.corpus.pmc import packages
from medvrag_core.corpus.pmc.packages import PackageSource, unpacked
from medvrag_core.corpus.pmc.refusal import RefusedError
from medvrag_core.errors import InputError
from medvrag_core.settings.pmc import PmcSettings

Member = tuple[str, bytes] | tarfile.TarInfo
PDF = b"%PDF-1.4\n1 0 obj\n"


def member(name: str, kind: bytes = tarfile.REGTYPE, **more: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    for field, value in more.items():
        setattr(info, field, value)
    return info


def package(path: Path, *members: Member) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for entry in members:
            if isinstance(entry, tarfile.TarInfo):
                archive.addfile(entry)
            else:
                info = member(entry[0], size=len(entry[1]))
                archive.addfile(info, io.BytesIO(entry[1]))
    return path


def article(number: int, **more: str) -> tuple[Member, Member]:
    told = jats(number, **({"link": LINKS["CC BY"], "sentence": "Open access."} | more))
    return (f"PMC{number}/a-1.nxml", told), (f"PMC{number}/a-1.pdf", PDF)


@pytest.fixture
def chosen(tmp_path: Path) -> PmcSettings:
    return PmcSettings(cache=str(tmp_path / "cache"))


def refused(path: Path, cache: Path) -> str:
    """The reason of a package that is refused; nothing of it stays in the cache, and nothing lies beside it."""
    before = sorted(x for x in path.parent.parent.rglob("*") if not x.is_relative_to(cache))
    with pytest.raises(RefusedError) as error:
        unpacked(path, cache)
    assert not cache.exists() or list(cache.iterdir()) == []
    assert sorted(x for x in path.parent.parent.rglob("*") if not x.is_relative_to(cache)) == before
    return error.value.reason


def test_real_packages_give_their_articles(shared_data: Path, chosen: PmcSettings) -> None:
    source = PackageSource(shared_data / "articles" / "oa_packages", chosen)
    documents = {document.article_id: document for document in source.documents()}
    assert {entry.file: entry.reason for entry in source.ledger()} == {
        "PMC3331186_nxml_only.tar.gz": "no_pdf",
        "PMC4945999_truncated.tar.gz": "damaged_package",
    }
    assert set(documents) == {"PMC4344766", "PMC4945999", "PMC5771181"}
    for name, document in documents.items():
        assert document.path.read_bytes() == (shared_data / "articles" / "pdf" / f"{name}.pdf").read_bytes()
        assert document.facts.attribution.endswith(f"https://pmc.ncbi.nlm.nih.gov/articles/{name}/")
    assert documents["PMC4344766"].facts.licence == "CC BY-NC 4.0"
    again = list(PackageSource(shared_data / "articles" / "oa_packages", chosen).documents())
    assert again == list(documents.values())


def test_an_article_is_told_as_the_bucket_would_tell_it(tmp_path: Path, chosen: PmcSettings) -> None:
    package(tmp_path / "p" / "x.tar.gz", *article(5), ("PMC5/fig.jpg", b"jpeg"), ("PMC5/supplement-s1.pdf", PDF + b"s"))
    (document,) = PackageSource(tmp_path / "p", chosen).documents()
    assert (document.article_id, document.label) == ("PMC5", "x.tar.gz")
    assert document.path.read_bytes() == PDF, "the PDF with the name of the JATS file, not its supplement"
    facts = document.facts
    assert (facts.title, facts.doi, facts.pmid, facts.licence) == ("On gout", "10.1000/j.5", "9005", "CC BY 4.0")
    assert (facts.journal, facts.published, facts.version) == ("Journal of Joints", "2018-07-02", 0)


def test_refusals_have_their_reasons(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    package(folder / "a.tar.gz", *article(1))
    package(folder / "b" / "PMC1.tar.gz", *article(1))
    package(folder / "c.tar.gz", *article(2, link=LINKS["CC BY-NC"]))
    package(folder / "d.tar.gz", *article(3, link="", sentence="All rights reserved."))
    package(folder / "e.tar.gz", ("PMC4/a.pdf", PDF))
    package(folder / "f.tar.gz", ("PMC5/a.nxml", b"<no"), ("PMC5/a.pdf", PDF))
    package(folder / "g.tar.gz", article(6)[0], ("PMC6/s1.pdf", PDF), ("PMC6/s2.pdf", PDF))
    package(folder / "h.tar.gz", *article(7, extra='<related-article related-article-type="retraction-forward"/>'))
    package(folder / "i.tar.gz", *article(8, sentence="Creative Commons licence. No commercial exploitation."))
    package(folder / "j.tar.gz", *article(9), ("PMC9/b.nxml", b"<article/>"))
    source = PackageSource(folder, PmcSettings(cache=str(tmp_path / "cache"), licences="commercial"))
    assert [document.article_id for document in source.documents()] == ["PMC1"]
    assert {entry.file: entry.reason for entry in source.ledger()} == {
        "b/PMC1.tar.gz": "duplicate_id", "c.tar.gz": "licence_not_allowed", "d.tar.gz": "licence_not_allowed",
        "e.tar.gz": "licence_not_allowed", "f.tar.gz": "damaged_jats", "g.tar.gz": "no_pdf", "h.tar.gz": "retracted",
        "i.tar.gz": "licence_conflict", "j.tar.gz": "damaged_package",
    }  # fmt: skip


def test_folders_without_packages(tmp_path: Path, chosen: PmcSettings) -> None:
    with pytest.raises(InputError, match="holds no package"):
        list(PackageSource(tmp_path, chosen).documents())
    (tmp_path / "x.tar.gz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"no usable article in 1 packages; the first: x\.tar\.gz"):
        list(PackageSource(tmp_path, chosen).documents())


@pytest.mark.parametrize(
    "name", ["../evil.pdf", "/evil.pdf", "a/../../evil.pdf", "a\\..\\evil.pdf", "..", "/etc/x.nxml"]
)
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    path = package(tmp_path / "p" / "x.tar.gz", *article(1), (name, PDF))
    assert refused(path, tmp_path / "cache") == "unsafe_package"


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (tarfile.SYMTYPE, "../../outside.pdf"), (tarfile.SYMTYPE, "/etc/passwd"), (tarfile.LNKTYPE, "PMC1/a-1.pdf"),
        (tarfile.CHRTYPE, ""), (tarfile.BLKTYPE, ""), (tarfile.FIFOTYPE, ""), (b"Z", ""), (tarfile.CONTTYPE, ""),
        (tarfile.GNUTYPE_SPARSE, ""),
    ],
)  # fmt: skip
def test_only_regular_files_are_read(tmp_path: Path, kind: bytes, target: str) -> None:
    path = package(tmp_path / "p" / "x.tar.gz", *article(1), member("PMC1/z.pdf", kind, linkname=target))
    assert refused(path, tmp_path / "cache") in ("unsafe_package", "damaged_package")


def test_a_chain_of_links_writes_nothing_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    path = package(
        tmp_path / "p" / "x.tar.gz",
        member("a", tarfile.SYMTYPE, linkname="."),
        member("a/b", tarfile.SYMTYPE, linkname=str(outside)),
        ("a/b/evil.pdf", PDF),
    )
    assert refused(path, tmp_path / "cache") == "unsafe_package"
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("second", ["PMC1/a-1.pdf", "PMC1/A-1.PDF", "PMC1//a-1.pdf", "PMC1/./a-1.pdf", "PMC1/ﬁ.txt"])
def test_two_members_of_one_name_are_refused(tmp_path: Path, second: str) -> None:
    path = package(tmp_path / "p" / "x.tar.gz", *article(1), ("PMC1/fi.txt", b""), (second, PDF))
    assert refused(path, tmp_path / "cache") == "unsafe_package"


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "MOST_MEMBERS", 50)
    path = package(tmp_path / "p" / "x.tar.gz", *article(1), *((f"PMC1/{n}.jpg", b"") for n in range(50)))
    assert refused(path, tmp_path / "cache") == "package_limit"


@pytest.mark.parametrize("suffix", [".pdf", ".nxml", ".jpg"])
def test_a_bomb_is_cut_at_the_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setattr(packages, "MOST_BYTES", 2 << 20)
    path = package(tmp_path / "p" / "x.tar.gz", *article(1), (f"PMC1/b{suffix}", bytes(20 << 20)))
    assert path.stat().st_size < 1 << 20
    assert refused(path, tmp_path / "cache") == "package_limit"


def test_a_bomb_behind_the_end_of_the_archive_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "MOST_BYTES", 2 << 20)
    path = package(tmp_path / "p" / "x.tar.gz", *article(1))
    path.write_bytes(path.read_bytes() + gzip.compress(bytes(20 << 20)))
    assert refused(path, tmp_path / "cache") == "package_limit"


def test_a_header_that_announces_a_giant_header_takes_no_memory(tmp_path: Path) -> None:
    """The archive reader of the standard library takes extended headers into memory whole."""
    giant = member("x", tarfile.XHDTYPE, size=200 << 20)
    raw = giant.tobuf(tarfile.USTAR_FORMAT) + bytes(200 << 20)
    path = tmp_path / "p" / "x.tar.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(raw, 1))
    del raw
    tracemalloc.start()
    assert refused(path, tmp_path / "cache") == "package_limit"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20


def test_a_member_that_lies_about_its_size(tmp_path: Path) -> None:
    path = tmp_path / "p" / "x.tar.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(member("PMC1/a.pdf", size=1 << 40).tobuf(tarfile.GNU_FORMAT) + PDF))
    assert refused(path, tmp_path / "cache") in ("package_limit", "damaged_package")


def test_every_cut_of_a_package_is_damaged_and_leaves_nothing(tmp_path: Path) -> None:
    path = package(tmp_path / "p" / "x.tar.gz", *article(1))
    whole = path.read_bytes()
    for cut in {*range(0, len(whole) - 1, 37), len(whole) - 1, len(whole) - 8}:
        path.write_bytes(whole[:cut])
        assert refused(path, tmp_path / "cache") == "damaged_package", cut
    path.write_bytes(whole)
    assert (unpacked(path, tmp_path / "cache") / "article.pdf").read_bytes() == PDF


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_damage_anywhere_ends_in_a_refusal_or_the_right_files(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("flip")
    path = package(folder / "p" / "x.tar.gz", *article(1))
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    try:
        home = unpacked(path, folder / "cache")
    except RefusedError as error:
        assert error.reason in ("damaged_package", "package_limit", "unsafe_package")
    else:
        assert (home / "article.pdf").read_bytes() == PDF
    shutil.rmtree(folder)


def test_extractall_is_never_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fail: Callable[..., None] = lambda *_, **__: pytest.fail("extracts")  # noqa: E731
    for name in ("extractall", "extract", "_extract_one"):
        monkeypatch.setattr(tarfile.TarFile, name, fail)
    assert unpacked(package(tmp_path / "p" / "x.tar.gz", *article(1)), tmp_path / "cache").is_dir()
