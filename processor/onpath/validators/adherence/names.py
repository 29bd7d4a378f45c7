"""When two step names are one name, and how a step is shown (adherence.md section 3)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

Normalisation: TypeAlias = Literal["casefold", "separators"]

LONGEST: Final = 200  # characters; a longer text is no name
_SEPARATORS: Final = re.compile(r"[\s\-_‐‑]+")


def default_normalise(loose: bool) -> tuple[Normalisation, ...]:
    return ("casefold", "separators") if loose else ()


def comparable(name: str, normalise: tuple[Normalisation, ...], nfc: bool) -> str:
    """The text that equal names share."""
    name = name.strip()
    if nfc and not name.isascii():
        name = unicodedata.normalize("NFC", name)
    if "casefold" in normalise:
        name = name.casefold()
        if not name.isascii():
            name = unicodedata.normalize("NFC", name)
    if "separators" in normalise:
        name = _SEPARATORS.sub("_", name)
    return name


@dataclass(frozen=True, slots=True)
class Names:
    """The configured names and their aliases, ready to be looked up by what was found."""

    normalise: tuple[Normalisation, ...] = ()
    nfc: bool = False  # `output` mode: both sides in Unicode NFC
    spellings: Mapping[str, str] = field(default_factory=dict)  # comparable form to the name as configured

    @staticmethod
    def of(
        configured: Iterable[str],
        aliases: Mapping[str, tuple[str, ...]],
        normalise: tuple[Normalisation, ...],
        nfc: bool,
    ) -> Names:
        """Of two equal configured names the first one gives the spelling."""
        spellings: dict[str, str] = {}
        for name in configured:
            spellings.setdefault(comparable(name, normalise, nfc), name.strip())
        for name, others in aliases.items():
            shown = spellings.get(comparable(name, normalise, nfc))
            if shown is not None:
                for other in others:
                    spellings.setdefault(comparable(other, normalise, nfc), shown)
        return Names(normalise, nfc, spellings)

    def configured(self, found: str) -> str | None:
        """The configured spelling of a name, None for a name that is not configured."""
        known = self.spellings.get(found)
        if known is not None and found.isascii():
            return known  # found in the form in which names are compared, as it mostly is
        return self.spellings.get(comparable(found, self.normalise, self.nfc))

    def shown(self, found: str) -> str:
        """A name as it is shown: as configured, else as found."""
        name = self.configured(found)
        return writable(found.strip()) if name is None else name


def writable(name: str) -> str:
    """Lone surrogates, which JSON escapes can make, can't be written as UTF-8 by whoever shows the name."""
    if name.isascii():
        return name
    return name.encode("utf-8", "replace").decode("utf-8")
