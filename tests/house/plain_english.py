"""Phrases that readers had to read twice, and what to write instead: refused in README and docs.

A phrase is a regular expression, matched without regard to case across line breaks.
"""

import re

REPLACED = {
    r"what these people have spent": "the dataset's privacy budget",
    r"but for the noise": "will differ slightly because noise is added",
    r"two fifths of the ink": "40% of the ink",
    r"another spend": "spends budget again",
    r"\b(is|are) a new spend": "spends budget again",
    r"(yours|your own) to know|on your word|your word\b": "you must ensure",
    r"nothing is ever given back|gives? no budget back": "budget is never refunded",
    r"gone stale": "monitor a model's score over time",
    r"one price for many": "at one fixed ε",
    r"what to expect, and its price": "estimate accuracy and privacy cost",
    r"(this|the) machine is fit": "check this machine's setup",
    r"its own plan calls": "the plan expects mostly noise",
    r"is the one to choose": "recommended",
    r"a choice ≤?[\d.–]+ below the best": "should score within … of the best",
    r"a constant answer, which scores": "better than always predicting the majority class",
    r"^\W*look\W+dpbo ui": "view   dpbo ui",
    r"\(without \[evaluation\]": "if the study has no [evaluation] section",
    r"believes what it cannot": "relies on facts that you state",
    r"for whoever answers for|whoever answers for": "for data owners and privacy officers",
    r"do not burst": "missed runs are skipped",
    r"shuts nobody out": "every candidate can still be chosen",
    r"what it never asked": "candidates that it never tried",
    r"noticed only by": "also checks",
    r"leaves? none out": "are checked again",
    r"that it does not in": "`None` if",
    r"none of (this|the) page's business": "handled elsewhere",
    r"way_of_answers": "answer_terms",
    r"cannot be taken out": "cannot be converted",
    r"\bsays plainly|as it has them\b|\bis said to be\b": "a plain verb",
    r"\bmakes? (it|a study) another\b": "make a study a different one",
    r"\bunder way\b": "running",
    r"\bof yours\b|\bof one's own\b": "your own",
    r"\bin the place of\b": "instead of",
    r"\bbut that\b|\bbeside that\b": "except",
}


def refused_phrases(text: str) -> dict[str, str]:
    """Return the refused phrases of a text, each with what to write instead."""
    found = {}
    for phrase, instead in REPLACED.items():
        match = re.search(phrase.replace(" ", r"\s+"), text, re.IGNORECASE | re.MULTILINE)
        if match is not None:
            found[match[0]] = instead
    return found
