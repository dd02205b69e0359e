"""Which licences a corpus takes, where the code, the tag and the sentence of an article may disagree."""

from __future__ import annotations

from medvrag_core.corpus.licences import CONFLICT, Licence, agreed_licence, parsed_licence
from medvrag_core.corpus.pmc.refusal import RefusedError
from medvrag_core.errors import SettingsError
from medvrag_core.settings.pmc import PmcSettings


def licence_of(code: str, link: str, sentence: str) -> Licence:
    """The licence by all that is known: PubMed Central's code, the licence tag and the licence sentence (BC-36).

    >>> licence_of("CC BY", "https://creativecommons.org/licenses/by-nc/4.0/", "").label
    'conflict'
    >>> licence_of("CC BY", "https://creativecommons.org/licenses/by/4.0/", "").label
    'CC BY 4.0'
    """
    tag, linked = parsed_licence(code), parsed_licence(link)
    if tag.code and linked.code and tag.code != linked.code:
        return Licence(code=CONFLICT, use="none", detail=f"{tag.label} against {linked.label}")
    return agreed_licence(link if linked.code else code, sentence)


def require_allowed(licence: Licence, settings: PmcSettings, told: str = "") -> None:
    """Refuse a licence outside of the class or list in the settings.

    A licence that contradicts itself does for local, non-commercial use: each of its readings is a Creative Commons
    licence. Under any other choice the article waits for a person.

    Raises
    ------
    RefusedError : ``licence_not_allowed``, or ``licence_conflict`` (quarantined)
    """
    wanted = settings.licences
    if licence.code == CONFLICT:
        if wanted == "non-commercial":
            return
        raise RefusedError("licence_conflict", f"licence: {licence.detail}", state="quarantined")
    if isinstance(wanted, tuple):
        allowed = licence.code in {parsed_licence(code).code for code in wanted}
    else:
        allowed = licence.use == "commercial" or (wanted == "non-commercial" and licence.use == "non-commercial")
    if not allowed:
        named = ", ".join(wanted) if isinstance(wanted, tuple) else wanted
        raise RefusedError("licence_not_allowed", f"licence {told or licence.label}; allowed: {named}")


def require_known_licences(settings: PmcSettings) -> None:
    """Raises SettingsError for a list of licences that holds none, or one that is not known."""
    wanted = settings.licences
    unknown = [code for code in wanted if not parsed_licence(code).code] if isinstance(wanted, tuple) else []
    if unknown or wanted == ():
        named = f"'{unknown[0]}' is no licence" if unknown else "an empty list"
        raise SettingsError(f"corpus.pmc.licences: {named}", way_out="write for example [CC0, CC BY]")
