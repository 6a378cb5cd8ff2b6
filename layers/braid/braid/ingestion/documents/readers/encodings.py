"""Detection of the encoding of text that is not UTF-8 and has no byte order mark."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Detected(NamedTuple):
    """The encoding that a text probably has."""

    encoding: str
    certain: bool
    """Whether every encoding in which it would be another text is much less likely."""


_CANDIDATES: Final = (
    *("cp1252", "iso8859-15", "mac-roman", "cp850", "cp1250", "iso8859-2", "cp1254", "cp1257"),
    *("cp1251", "koi8-r", "koi8-u", "iso8859-5", "cp866", "cp1253", "iso8859-7", "cp1255", "cp1256", "cp874"),
    *("cp932", "shift_jis_2004", "euc_jis_2004", "gb18030", "big5hkscs", "cp949", "euc_kr"),
)
"""Encodings that people's files have; among all that are known, a short text would have a rare one more often."""
_TYPOGRAPHY: Final = re.compile(rb"[\x00-\x7f\x80\x85\x91-\x97\xa0]*")
"""Text beyond ASCII only in the quotation marks, dashes, bullet, ellipsis and euro of Windows: of no language."""
_SAMPLE_BYTES: Final = 16 * 1024
_HEAD_BYTES: Final = 1024
"""Of the beginning of HTML or XML, where it declares its encoding."""
_WRONG_OF_UTF_8: Final = 0.1
"""Largest share of wrong characters, of those beyond ASCII, in text that is read as damaged UTF-8."""
_PREFERRED: Final = {"cp1252": 1.3}
"""Factor of the confidence in the encoding that most files have: fitted to lines of 21 languages."""
_CERTAIN: Final = 1.5
"""Least ratio of the best confidence to the next one in a detection that is certain."""


def detect(content: bytes, first_wrong: int = 0) -> Detected | None:
    """Return the encoding that a text probably has, or None if it is text in no known one.

    ``first_wrong`` is the offset of the first byte that is not UTF-8: before it there may be nothing but ASCII.
    """
    from chardet import detect_all

    earliest = max(0, first_wrong - _SAMPLE_BYTES // 2)
    start = content.rfind(b"\n", earliest, first_wrong) + 1 or earliest
    head = content[: min(start, _HEAD_BYTES)]
    sample = (head if head.lstrip().startswith(b"<") else b"") + content[start : start + _SAMPLE_BYTES]
    if _is_damaged_utf_8(sample):
        return Detected("utf-8", certain=False)
    if _TYPOGRAPHY.fullmatch(sample):
        return Detected("cp1252", certain=True)
    found = detect_all(sample, ignore_threshold=True, include_encodings=_CANDIDATES, compat_names=False)
    scores = {name: _PREFERRED.get(name, 1.0) * one["confidence"] for one in found if (name := one["encoding"])}
    if not scores:
        return None
    best = max(scores, key=scores.__getitem__)
    text = sample.decode(best, "replace")
    others = [score for name, score in scores.items() if sample.decode(name, "replace") != text]
    return Detected(best, scores[best] >= _CERTAIN * max(others, default=0.0))


def _is_damaged_utf_8(sample: bytes) -> bool:
    """Return whether nearly all of a sample is UTF-8, as of a text that was cut or pasted into."""
    text = sample.decode("utf-8", "replace")
    return text.count("�") <= _WRONG_OF_UTF_8 * sum(character > "\x7f" for character in text)
