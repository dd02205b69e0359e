"""Files that a corpus cannot use, or not as they are: for the gallery of chapter 01. All are small and made here."""

from __future__ import annotations

import io
from pathlib import Path

from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen import canvas

from medvrag_core.runs.publish import whole_folder

_LINE = "Colchicine 0.5 mg twice a day for three days."
_DOUBLINGS = 28


def write_odd_files(folder: Path, article: bytes) -> None:
    """Publish the files; ``article`` is a good PDF, one of them is cut out of it."""
    with whole_folder(folder) as fresh:
        made = {
            "a_web_page.pdf": b"<!DOCTYPE html><html><body>404 Not Found</body></html>",
            "blank_second_page.pdf": _pdf([_LINE], [], [_LINE, "Then once a day."]),
            "cut_off.pdf": article[: len(article) // 20],
            "empty.pdf": b"",
            "endless_drawing.pdf": _doubling_forms(),
            "locked.pdf": _pdf([_LINE], password="secret"),
            "poster.pdf": _pdf([_LINE], size=(3421, 1890)),
            "the_same_page_again.pdf": _pdf([_LINE]),
            "two_licences.pdf": _pdf(["Open access, CC BY 4.0.", "No commercial exploitation is permitted."]),
            "tiny_page.pdf": _pdf([_LINE], size=(3, 3)),
        }
        for name, content in made.items():
            (fresh / name).write_bytes(content)


def _pdf(*pages: list[str], size: tuple[float, float] = (300, 400), password: str = "") -> bytes:
    buffer = io.BytesIO()
    lock = StandardEncryption(password) if password else None
    drawn = canvas.Canvas(buffer, pagesize=size, invariant=1, encrypt=lock)
    for lines in pages:
        for place, line in enumerate(lines, start=1):
            drawn.drawString(20, size[1] - 30 * place, line)
        drawn.showPage()
    drawn.save()
    return buffer.getvalue()


def _doubling_forms() -> bytes:
    """A page of 5 kB whose drawing calls itself twice, 28 levels deep: 268 million strokes."""
    first = 4
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 400] /Contents %d 0 R "
        b"/Resources << /XObject << /F %d 0 R >> >> >>" % (first + _DOUBLINGS, first),
    ]
    for level in range(_DOUBLINGS):
        last = level == _DOUBLINGS - 1
        drawing = b"0 0 m 9 9 l S" if last else b"/F Do /F Do"
        inner = b"" if last else b"/XObject << /F %d 0 R >>" % (first + level + 1)
        head = b"<< /Type /XObject /Subtype /Form /BBox [0 0 300 400] /Resources << %s >> /Length %d >>"
        objects.append(head % (inner, len(drawing)) + b"\nstream\n" + drawing + b"\nendstream")
    objects.append(b"<< /Length 5 >>\nstream\n/F Do\nendstream")
    out = b"%PDF-1.4\n"
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    return (
        out
        + head
        + table
        + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(out))
    )
