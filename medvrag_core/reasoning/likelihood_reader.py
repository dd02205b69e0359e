"""SmolLM2-135M as a reader: it scores the texts of the options after the best passages (profile ``cpu-llm``).

A baseline, labelled so: the model is small and not a medical one. Passages are picked as the evidence reader does,
only the choice among options is the model's.
"""

from __future__ import annotations

from dataclasses import replace

from medvrag_core.models.local_server import MODEL, ServerScorer
from medvrag_core.models.openai_client import digest
from medvrag_core.models.reply_text import neutral
from medvrag_core.models.text_scorer import TextScorer
from medvrag_core.reasoning.evidence_reader import refinement_text, reply_text
from medvrag_core.reasoning.judge import Judgement, judge, softmax
from medvrag_core.reasoning.passages import evidence_passages
from medvrag_core.reasoning.reader import Reader
from medvrag_core.reasoning.support import PassageIndex, best_passages, shown_text
from medvrag_core.records import ReaderInput, ReaderReply
from medvrag_core.settings import ModelSettings, ReaderSettings

VERSION = "likelihood-2"
CONTEXT_CHARACTERS = 2_100  # about 600 tokens, which one CPU thread reads in a few seconds
TEMPERATURE = 3.0


class LikelihoodReader(Reader):
    """Chooses the option whose text the model finds likeliest after the evidence.

    Parameters
    ----------
    settings : ``margin`` is the lead in probability that the best option needs before the last round
    model : ``base_url`` of a running llama.cpp server; empty starts SmolLM2 with the first question
    scorer : scores the options, for example from a call store; one over the server of ``model`` if not given
    """

    name = "likelihood"

    def __init__(
        self, settings: ReaderSettings, model: ModelSettings | None = None, scorer: TextScorer | None = None
    ) -> None:
        self.settings = settings
        self.model = model or ModelSettings()
        self.scorer = scorer or ServerScorer(self.model)

    @property
    def fingerprint(self) -> str:
        """Digest of the version, the model and the margin."""
        return digest(
            VERSION, self.model.model or MODEL, str(CONTEXT_CHARACTERS), str(TEMPERATURE), str(self.settings.margin)
        )

    def read(self, given: ReaderInput) -> ReaderReply:
        """Answer or ask, in the production format.

        Raises
        ------
        ModelError
            The server failed.
        MedvragError
            The extra ``local`` is not installed.
        """
        options = given.question.options
        scores = self.scorer.score(scoring_prompt(given), [f" {neutral(text)}" for text in options.values()])
        found = judge(given)
        by_label = dict(zip(options, scores.values, strict=True))
        judgement: Judgement = replace(
            found,
            ranking=tuple(sorted(options, key=lambda label: -by_label[label])),
            probability=softmax(by_label, TEMPERATURE),
            basis="likeliest to the language model",
        )
        text = reply_text(given, judgement, self.settings.margin)
        return ReaderReply(
            text=text,
            model=self.model.model or MODEL,
            call=scores.call,
            option_scores=dict(judgement.probability),
        )

    def refine(self, given: ReaderInput) -> ReaderReply:
        """Ask with the question's own words, as the reader without a model does."""
        return ReaderReply(text=refinement_text(given), model=VERSION)

    def close(self) -> None:
        """Close the connection, and the server if it was started here."""
        self.scorer.close()


def scoring_prompt(given: ReaderInput) -> str:
    """The text before the option: the best passages, the very best last, then the question."""
    question = neutral(given.question.question, 3_000)
    index = PassageIndex(evidence_passages(given))
    chosen = best_passages(index, given.question.question, given.question.options, CONTEXT_CHARACTERS)
    evidence = "\n".join(shown_text(passage) for passage in reversed(chosen))
    return f"{evidence}\n\nQuestion: {question}\nAnswer:" if evidence else f"Question: {question}\nAnswer:"
