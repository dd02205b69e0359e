"""How the public MIRAGE script reads a letter out of a reply, told in our own words and code.

It looks at what follows the last ``"answer_choice": "`` of the raw reply (all of it where there is none), knows the
letters A to D alone, and gives "A" to a reply in which it finds no letter. That fallback hands out chance credit, so
figures under this rule are for laying beside published ones, never the headline (case BC-11). The script reads the
PMC-LLaMA runs by another rule, which is not built here.
"""

from __future__ import annotations

import re

FALLBACK = "A"
_MARKER = '"answer_choice": "'

# In the order in which the script tries them; the first that finds a letter decides.
_AT_START = re.compile(r"([A-D])(?:$| or| and|/|,)")
_OPTION = re.compile(r"[Oo]ption ([A-D])")
_AFTER_COLON = re.compile(r":\s*([A-D])")
_AT_START_PUNCTUATED = re.compile(r'([A-D])[.":]')


def mirage_letter(reply: str) -> tuple[str, bool]:
    """The letter that MIRAGE gives to a reply, and whether it was found rather than fallen back to.

    Letters inside of words count where the script counts them: ``: Beta`` is read as B.

    >>> mirage_letter('{"answer_choice": "B. VLDL"}')
    ('B', True)
    >>> mirage_letter("I cannot tell from these pages.")
    ('A', False)
    """
    text = reply.rpartition(_MARKER)[2].strip()
    found = (
        _AT_START.match(text) or _OPTION.search(text) or _AFTER_COLON.search(text) or _AT_START_PUNCTUATED.match(text)
    )
    return (found.group(1), True) if found else (FALLBACK, False)
