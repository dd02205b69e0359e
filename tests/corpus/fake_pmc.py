"""PubMed Central on loopback: bucket, search and id converter on a real HTTP server that can also misbehave."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

LINKS = {
    "CC BY": "https://creativecommons.org/licenses/by/4.0/",
    "CC BY-NC": "https://creativecommons.org/licenses/by-nc/4.0/",
    "CC BY-ND": "https://creativecommons.org/licenses/by-nd/4.0/",
    "CC BY-NC-ND": "https://creativecommons.org/licenses/by-nc-nd/4.0/",
    "CC0": "https://creativecommons.org/publicdomain/zero/1.0/",
}
NS = "http://s3.amazonaws.com/doc/2006-03-01/"


def jats(number: int, *, title: str = "On gout", link: str = "", sentence: str = "", extra: str = "") -> bytes:
    """A short JATS file."""
    return f"""<?xml version="1.0"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) Journal Archiving DTD v1.2 20190208//EN" "JATS-archivearticle1.dtd">
<article xmlns:xlink="http://www.w3.org/1999/xlink" article-type="review-article"><front>
<journal-meta><journal-title-group><journal-title>Journal of Joints</journal-title></journal-title-group></journal-meta>
<article-meta><article-id pub-id-type="pmc">PMC{number}</article-id>
<article-id pub-id-type="pmid">{number + 9000}</article-id>
<article-id pub-id-type="doi">10.1000/J.{number}</article-id>
<title-group><article-title>{title}<xref ref-type="fn">*</xref></article-title></title-group>
<contrib-group><contrib contrib-type="author"><name><surname>Lovelace</surname><given-names>Ada K</given-names></name>
</contrib></contrib-group><pub-date pub-type="collection"><year>2017</year></pub-date>
<pub-date pub-type="epub"><day>2</day><month>7</month><year>2018</year></pub-date>{extra}
<permissions><license xlink:href="{link}"><license-p>{sentence}</license-p></license></permissions>
</article-meta></front><body><p>{"x" * 100}</p></body></article>""".encode()


class FakePmc:
    """What the services answer, what goes wrong, and every request that came."""

    def __init__(self, pdf: bytes) -> None:
        self.pdf = pdf
        self.files: dict[str, bytes] = {}
        self.found: list[int] = []
        self.search_says: dict[str, Any] = {}
        self.converted: dict[str, str] = {}
        self.spoiled: set[str] = set()
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.faults: list[tuple[str, str, list[int]]] = []
        self.page_size = 1000
        self.sent = 0
        self.lock = threading.Lock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    # --- content

    def add(self, number: int, version: int = 1, *, licence: str = "CC BY", **more: Any) -> dict[str, Any]:
        """An article version with its metadata, JATS file and PDF; ``more`` overrides fields of the metadata."""
        name = f"PMC{number}.{version}"
        link = more.pop("link", LINKS.get(licence, ""))
        sentence = more.pop("sentence", f"Open access article under a Creative Commons licence ({link}).")
        xml = more.pop("xml", None) or jats(number, link=link, sentence=sentence, extra=more.pop("extra", ""))
        pdf = more.pop("pdf", self.pdf + f"\n% {name}\n".encode())
        self.files[f"{name}/{name}.pdf"], self.files[f"{name}/{name}.xml"] = pdf, xml
        metadata = {
            "pmcid": f"PMC{number}", "version": version, "pmid": number + 9000, "doi": f"10.1000/j.{number}",
            "mid": None, "title": "On gout", "citation": "J Joints. 2018", "is_pmc_openaccess": True,
            "is_manuscript": False, "is_historical_ocr": False, "is_retracted": False, "license_code": licence,
            "xml_url": f"s3://pmc-oa-opendata/{name}/{name}.xml?md5={hashlib.md5(xml).hexdigest()}",
            "pdf_url": f"s3://pmc-oa-opendata/{name}/{name}.pdf?md5={hashlib.md5(pdf).hexdigest()}",
            "text_url": None, "media_urls": [],
        } | more  # fmt: skip
        self.files[f"metadata/{name}.json"] = json.dumps(metadata).encode()
        return metadata

    def inventory(self, date: str, shards: list[list[str]]) -> None:
        """A dated inventory with these metadata keys in its shards."""
        prefix = f"inventory-reports/pmc-oa-opendata/metadata/{date}"
        files = []
        for number, keys in enumerate(shards):
            key = f"inventory-reports/pmc-oa-opendata/metadata/data/{date}-{number}.csv.gz"
            self.files[key] = shard(keys)
            digest = hashlib.md5(self.files[key]).hexdigest()
            files.append({"key": key, "size": len(self.files[key]), "MD5checksum": digest})
        manifest = {"fileFormat": "CSV", "fileSchema": "Bucket, Key, LastModifiedDate, ETag", "files": files}
        self.files[f"{prefix}/manifest.json"] = json.dumps(manifest).encode()

    # --- faults

    def fail(self, part: str, kind: str, times: int = 1_000_000) -> None:
        """The next ``times`` requests whose address holds ``part`` go wrong in this way."""
        self.faults.append((part, kind, [times]))

    def asked(self, part: str) -> int:
        """How many requests had ``part`` in their address."""
        return sum(part in path for path, _ in self.requests)

    # --- answers

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        with self.lock:
            path = unquote(handler.path)
            self.requests.append((path, dict(handler.headers)))
            fault = next((f for f in self.faults if f[0] in path and f[2][0] > 0), None)
            if fault:
                fault[2][0] -= 1
        try:
            body = self.body(handler)
            if fault:
                self.misbehave(handler, fault[1], body or b"")
            elif body is None:
                self.send(handler, b"<Error/>", status=404)
            else:
                self.send(handler, body)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def send(self, handler: BaseHTTPRequestHandler, body: bytes, *, status: int = 200, **headers: str) -> None:
        handler.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    def misbehave(self, handler: BaseHTTPRequestHandler, kind: str, body: bytes) -> None:
        name, _, value = kind.partition(":")
        if name == "status":
            self.send(handler, b"no", status=int(value))
        elif name == "wait":
            self.send(handler, b"slow down", status=429, Retry_After=value)
        elif name == "html":
            self.send(handler, b"<!DOCTYPE html><html><body>Checking your browser</body></html>")
        elif name == "truncate":
            self.send(handler, body[: len(body) // 2], Content_Length=str(len(body)))
        elif name == "short":
            self.send(handler, body[: len(body) // 2])
        elif name == "flip":
            self.send(handler, body[:-1] + bytes([body[-1] ^ 1]))
        elif name == "empty":
            self.send(handler, b"")
        elif name == "redirect":
            self.send(handler, b"", status=302, Location=value)
        elif name == "packed":
            self.send(handler, gzip.compress(body), Content_Encoding="gzip")
        elif name == "body":
            self.send(handler, value.encode())
        elif name == "endless":
            handler.send_response(200)
            handler.end_headers()
            handler.wfile.write(b"%PDF-1.4\n")
            for _ in range(1_000):
                self.sent += 65_536
                handler.wfile.write(b"0" * 65_536)
        elif name in ("drip", "silent"):
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            for place in range(len(body)):
                if name == "drip":
                    handler.wfile.write(body[place : place + 1])
                    handler.wfile.flush()
                time.sleep(0.05)

    def body(self, handler: BaseHTTPRequestHandler) -> bytes | None:
        parts = urlsplit(handler.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/entrez/esearch.fcgi":
            return self.search(asked)
        if parts.path == "/idconv/":
            return self.convert(asked)
        if parts.path == "/" and asked.get("list-type") == "2":
            return self.listing(asked)
        return self.files.get(unquote(parts.path).lstrip("/"))

    def search(self, asked: dict[str, str]) -> bytes:
        start, most = int(asked["retstart"]), int(asked["retmax"])
        ids = [str(number) for number in self.found[start : start + min(most, self.page_size)]]
        result = {"count": str(len(self.found)), "retmax": asked["retmax"], "retstart": str(start), "idlist": ids}
        return json.dumps({"header": {}, "esearchresult": result | self.search_says}).encode()

    def convert(self, asked: dict[str, str]) -> bytes:
        ids = asked["ids"].split(",")
        assert len(ids) <= 200
        records = []
        for text in ids:
            if text in self.converted:
                pmid = int(text) if text.isdecimal() else 1
                records.append({"pmcid": self.converted[text], "pmid": pmid, "requested-id": text})
            else:
                records.append({"requested-id": text, "status": "error", "errmsg": "Identifier not found in PMC"})
        return json.dumps({"status": "ok", "records": records}).encode()

    def listing(self, asked: dict[str, str]) -> bytes:
        prefix, token = asked["prefix"], int(asked.get("continuation-token", "0"))
        names = sorted({prefix + key[len(prefix) :].split("/")[0] for key in self.files if key.startswith(prefix)})
        page, more = names[token : token + self.page_size], token + self.page_size < len(names)
        items = "".join(f"<CommonPrefixes><Prefix>{name}/</Prefix></CommonPrefixes>" for name in page)
        after = f"<NextContinuationToken>{token + self.page_size}</NextContinuationToken>" if more else ""
        truncated = f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>"
        text = f'<?xml version="1.0"?><ListBucketResult xmlns="{NS}">{truncated}{items}{after}</ListBucketResult>'
        return text.encode()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def shard(keys: list[str]) -> bytes:
    """A shard of the inventory."""
    out = io.StringIO()
    csv.writer(out).writerows(["pmc-oa-opendata", key, "2026-09-01T00:00:00.000Z", "e"] for key in keys)
    return gzip.compress(out.getvalue().encode(), mtime=0)
