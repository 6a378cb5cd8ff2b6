"""What the library warns of, as the command line shows it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from braid_cli import main

if TYPE_CHECKING:
    import pytest


def test_what_the_library_warns_of_is_a_line_like_any_other_complaint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    library = logging.getLogger("braid")
    before = list(library.handlers)
    monkeypatch.setattr(main, "app", lambda: library.getChild("of_a_module").warning("%s cannot be read", "it"))
    main.main()
    assert capsys.readouterr().err == "braid: it cannot be read\n"
    assert library.handlers == before
