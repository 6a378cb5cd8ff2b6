"""Words that begin a sentence before a name and are not part of it; ``name_patterns`` cuts them off.

"However Anna Berg" and "Ask Anna Berg" name Anna Berg, and "Der Umzug" begins with an article. Function words,
which search leaves out too, are in ``tokens``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from braid.understanding.tokens import FOREIGN_FUNCTION_WORDS, FUNCTION_WORDS, word_set

if TYPE_CHECKING:
    from collections.abc import Iterable

OPENERS: Final = word_set("""
    although however despite today yesterday tomorrow then thus also another later meanwhile moreover furthermore
    hence therefore here every several both either neither unlike like no yes well hi hey hello oh wow thanks
    thank please let maybe perhaps just so too very never always often sometimes she he we i you they my our his
    their its again once including see note according based given using next still even while within without upon
    among between against across along around below above toward towards per via plus first second third finally
    originally currently recently eventually initially together nothing something everything nobody somebody
    everybody anyone someone everyone many few most more less much each what why when where how which who whom
    whose because besides regarding concerning it this that these those there none true false
""")
"""Words that begin a sentence and belong to no name."""
IMPERATIVES: Final = word_set("""
    ask call contact email phone ping tell notify inform remind invite meet thank greet consult congratulate cc visit
    assign forward send escalate approve review install deploy restart reboot configure upgrade update replace remove
    frag frage fragen ruf rufe rufen kontaktiere kontaktieren informiere informieren besuche besuchen bitte
    demande demandez appelle appelez contacte contactez informez prévenez
    pregunta pregunte llama llame contacta avisa avise informa
    chiedi chieda chiama chiami contatta contatti avvisa
    pergunte ligue chame contate avise
    vraag bel contacteer informeer
""")
"""Imperative verbs whose object is often a name, except verbs with which names often begin, such as "open"."""

_EVIDENCE: Final = tuple(words - FUNCTION_WORDS for words in FOREIGN_FUNCTION_WORDS)
_BEGIN_NAMES: Final = word_set("el la las los le les il lo de die")
"""Articles with which many names of places and works begin; with a capital they do not indicate the language."""
PREPOSITIONS: Final = word_set("after before over under about until since during only")
"""Words before a name or number with which titles begin too: "After Anna Berg left", "After 15 minutes"."""
ALL_OPENERS: Final = IMPERATIVES.union(PREPOSITIONS, *_EVIDENCE)
"""All words that :func:`function_words_of` may return, imperatives and prepositions."""


def function_words_of(words: Iterable[str]) -> frozenset[str]:
    """Return the function words of the language that most function words of a text are of; none of an English text."""
    counted: Counter[str] = Counter()
    for word in words:
        folded = word.casefold()
        if word[:1].islower() or folded not in _BEGIN_NAMES:
            counted[folded] += 1
    best = max(_EVIDENCE, key=lambda known: sum(counted[word] for word in known))
    english = sum(counted[word] for word in FUNCTION_WORDS)
    return best if sum(counted[word] for word in best) > english else frozenset()
