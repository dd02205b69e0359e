"""Text of questions and pages made comparable: what typesetting did to it is undone."""

from __future__ import annotations

import re
import unicodedata

_HYPHEN = "[-\u00ad\u2010\u2011]"
_WORD = re.compile(r"[^\W_]+")


def folded_words(text: str) -> list[str]:
    r"""Words without case, accents, ligatures and punctuation; a hyphen joins what stands around it, at a line end too.

    Hyphens that stand in a word and those of a broken line look alike, so both are taken away, here as there.

    >>> folded_words("Na\u00efve e\ufb00ects of anti-in\u00ad\nflammatory hyper-\n tension, 1\u20132 mg")
    ['naive', 'effects', 'of', 'antiinflammatory', 'hypertension', '1', '2', 'mg']
    """
    plain = unicodedata.normalize("NFKD", text).casefold()
    # Marks of accents, and marks that only steer how text is set, such as a zero-width space.
    shown = "".join(char for char in plain if unicodedata.category(char) not in ("Mn", "Cf") or char == "\u00ad")
    return _WORD.findall(re.sub(rf"(?<=[^\W_]){_HYPHEN}+\s*(?=[^\W_])", "", shown).replace("\u00ad", ""))
