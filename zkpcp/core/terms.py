"""Which search terms a page and a query have, and the encoded term vector that a query scans.

Implements the terms of PCP §5.5: compatibility-normalized, case-folded words, each as it stands and as its Snowball
stem; pairs of characters where a script writes no spaces; joined identifiers as parts and whole. Scoring is
``ranking``'s question. A vector is plaintext in another form: it is sealed wherever a page would be, and nothing here
is kept between calls.

Kinds of terms: ``e:`` exact word, ``s:`` stem, ``tag:``, ``type:`` and ``path:`` (a segment) for what a page is filed
under, and ``cut:`` for a page of which not every word is indexed.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Final

import snowballstemmer

from zkpcp.errors import CorruptError

MAX_WORD_CHARS: Final = 64
"""A longer word is cut: it is data, such as a key or an encoded file, and its start is enough to find it."""
MAX_WORDS: Final = 16_384
"""How many distinct words of a page are indexed: its path, tags and title first, then the body in order."""
MAX_QUERY_WORDS: Final = 64
MAX_TF: Final = 0xFF - 0x20
"""Counts above it are written as it; BM25 is all but flat there."""

_TITLE_WEIGHT: Final = 2
_TAG_WEIGHT: Final = 2
_PATH_WEIGHT: Final = 1

_LANGUAGES: Final[Mapping[str, str]] = {
    "en": "english",
    "de": "german",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "pt": "portuguese",
    "nl": "dutch",
    "sv": "swedish",
    "ru": "russian",
}
_LATIN: Final = tuple(name for name in _LANGUAGES.values() if name != "russian")
# What a short note in Latin letters is stemmed by when it has no word that tells its language.
_FALLBACK: Final = "english"
_MIN_PAGE_VOTES: Final = 2

# Words that tell languages apart, chosen short and frequent; with accents and as they are typed without.
_TELLING: Final[Mapping[str, str]] = {
    "english": "the and of to is was that with for are have this not from what which who how when where does "
    "did my your has been about would they there",
    "german": "der die das und ist nicht ein eine mit von zu den dem auf fur im ich wir wie wer wann auch "
    "sich werden wurde bei aus oder uber war sind welche für über",
    "spanish": "el los las que del por para con una es como mas pero su al fue son cuando donde quien cual esta y "
    "en más él dónde quién cuál está",
    "french": "le les des et est une dans pour que qui sur avec pas au du ce sont ou quel quelle nous vous "
    "elle il aux mais à où été",
    "italian": "il gli di che e una per con del della sono non come piu ma nel alla quando dove chi quale ha "
    "anche degli è più perché",
    "portuguese": "o os as um uma do da dos das em no na nao com para que foi sao mais quando onde quem qual "
    "ao pelo e não são",
    "dutch": "de het een en van is dat niet met voor op zijn aan er ook maar wat wie hoe waar wanneer naar "
    "bij door welke uit",
    "swedish": "och att det som en ett ar av pa den till inte med for har jag vi var hur nar vem vad vilken "
    "eller om men fran på är för från när",
}
_VOTES: Final[Mapping[str, tuple[str, ...]]] = {
    word: tuple(language for language in _LATIN if word in _TELLING[language].split())
    for word in " ".join(_TELLING.values()).split()
}

# Words that hold sentences together rather than say what they are about: in a query they weigh little, so that a
# question is not answered by the pages that chat most. They are indexed and looked up like any other word.
_COMMON: Final[Mapping[str, str]] = {
    "english": "a about after again all am an any as at be been before being between both but by can could doing down "
    "during each few from further had he her here him his how i if in into it its just me more most my no nor not now "
    "off on once only other our out over own same she should so some such than that their them then there these they "
    "this those through too under until up very we were what when where which while who whom whose why will would you "
    "your or",
    "german": "aber alle als also am an ans beim bin bis da dass dem denn deren des dessen dich dies diese dieser dir "
    "doch du durch eines einem einen einer er es euch euer gegen hat hatte haben hier ihm ihn ihr ihre ins ist ja "
    "kann kein keine können man mein mich mir nach noch nun nur ob ohne sehr sein seine sie so um uns unser unter vom "
    "vor warum was wenn wer wieder wo wurden würde zum zur zwischen zwar",
    "spanish": "a al algo ante antes aunque cada cual cuales cuál cuáles cuánto cuántos cómo de desde dos e ella ellos "
    "entre era eran ese eso esa esto este estos esas ha han hasta hay le les lo me mi muy más ni no nos nosotros o "
    "otra otro porque pues qué quien se sea ser si sin sobre sólo son su sus también te tiene todo tu un unos uno ya",
    "french": "ai ainsi après aussi autre avait avant ce cela ces cet cette chez comme comment d dans de depuis donc "
    "du elles en entre eu fait il ils j je l la leur leurs lui l m me moi mon même n ni notre on par peut plus "
    "pourquoi quand quels quelles qui quoi s sa sans se ses si son sous tous tout très tu un vos votre y été être",
    "italian": "a ad ai al alla allo anche ancora c ci come cosa cui da dal dalla dei del della dello di dopo dov è ed "
    "ella era erano essere fra fu gli ho i in io l la le lei li lo loro lui ma me mi mio ne negli nei nella no noi "
    "nostro o ogni per però poi qual quali quanto quello questa questo qui se si sia siamo solo su sua suo sul sulla "
    "tra tu tutti un uno voi",
    "portuguese": "a à ainda ao aos as até cada com como da das de dela dele deles depois do dos e ela elas ele eles "
    "em entre era essa esse esta este está eu foi foram há isso isto já lhe lo mais mas me mesmo meu minha muito na "
    "nas nem nos nós ou os para pela porque por qual quais quanto que quem se sem ser seu seus sua só sobre também te "
    "tem um você à às é onde",
    "dutch": "al alles als altijd andere ben bij dan daar dan der deze die dit doch doen door dus een eens geen "
    "geweest haar had heb hebben heeft hem hier hij hoe hun iets ik in ja je kan kon kunnen maar me meer men met mij "
    "mijn moet na naar niets nog nu of om omdat onder ons ook over te tegen toch toen tot uw veel voor waren waarom "
    "wat we wel werd wezen wij wil worden wordt zal ze zelf zich zij zo zonder zou",
    "swedish": "alla allt att av bara blev bli den denna deras dess dessa detta dig din du där då efter ej eller en er "
    "ett från för ha hade han hans har henne hennes hon honom hur här i icke in ingen innan inte ja jag kan kunde "
    "man mig min mitt mot mycket ni nu när någon något några och om oss på samma sedan sig sin sitt själv skulle så "
    "sådan till under upp ut utan vad var vara varför varit vart vem vi vid vilka vilken vilket vår än är åt över",
    "russian": "а без более бы был была были было быть в вам вас вот все всё всех где да "  # noqa: RUF001 - Cyrillic
    "даже для до его ее её ей ему если есть еще ещё же за и из или им их к "  # noqa: RUF001 - Cyrillic
    "как какая какие какой какую каким когда кто куда ли между меня мне может "
    "мы на над надо нас не него нее ней нет ни них но о об он она они оно от "  # noqa: RUF001 - Cyrillic
    "перед по под после потом потому почему при про с сам себя со так также "  # noqa: RUF001 - Cyrillic
    "такой там то того тоже только том ты у уже хотя чего чей чем через что "  # noqa: RUF001 - Cyrillic
    "чтобы эта эти это этого этой этом этот я сколько каких котором который "
    "которая которые",
}
COMMON_WEIGHT: Final = 0.2
"""What a common word of a query weighs beside any other."""

# Scripts written without spaces (kana, ideographs, Thai, Lao, Khmer, Myanmar), and Hangul, whose endings join the word.
_UNSPACED: Final = (
    "\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u1049\u1780-\u17d3\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs and accents belong to words, though Python's \w leaves them out.
_MARKS: Final = "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0df3\u1b00-\u1b44"
_WORD: Final = rf"[\w{_MARKS}{_UNSPACED}]+"
_TOKEN: Final = re.compile(rf"{_WORD}(?:[-.@+]{_WORD})*")
# A character of a word that is no joiner, in a spaced script.
_LETTER: Final = rf"(?:[^\W_]|[{_MARKS}])"
_LETTERS: Final = re.compile(f"{_LETTER}+")
_JOINERS: Final = re.compile(r"[-._@+]+")
_RUN: Final = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED: Final = re.compile(f"[{_UNSPACED}]")
_ACCENTS: Final = re.compile("[\u0300-\u036f]")
_CYRILLIC: Final = re.compile("[\u0400-\u04ff]")
# Characters that are not seen: soft hyphen, zero-width space, joiners, word joiner, byte order mark.
_UNSEEN: Final = dict.fromkeys((0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF))

_KINDS: Final[Mapping[str, int]] = {"e": 1, "s": 2, "tag": 3, "type": 4, "path": 5, "cut": 6}
_KIND_NAMES: Final[Mapping[int, str]] = {number: name for name, number in _KINDS.items()}
CUT_TERM: Final = "cut:words"
"""The term of a page that has more distinct words than are indexed."""
EXACT_KIND: Final = _KINDS["e"]
STEM_KIND: Final = _KINDS["s"]
FIRST_COUNT_BYTE: Final = 0x20
"""A count of 0 in a line; the bytes before it are kinds."""
_ENDS: Final[Mapping[int, tuple[bytes, ...]]] = {
    kind: tuple(bytes((kind, FIRST_COUNT_BYTE + count)) for count in range(MAX_TF + 1)) for kind in _KIND_NAMES
}
_VERSION: Final = b"1 "
_HEADER: Final = re.compile(rb"1 (0|[1-9][0-9]{0,17})")
_CONTROL: Final = re.compile("[\x00-\x1f\ud800-\udfff]")

_Stem = Callable[[str], str]
Blob = bytes | bytearray


@dataclass(frozen=True, slots=True, repr=False)
class TermVector:
    """A page's terms with their weighted counts (1 to ``MAX_TF``), and its ``length`` in weighted words."""

    length: int
    frequencies: Mapping[str, int]


@dataclass(frozen=True, slots=True, repr=False)
class QueryWord:
    """One word of a query: as it stands, and every stem a page may have filed it under."""

    exact: str
    stems: tuple[str, ...]
    weight: float = 1.0

    @property
    def text(self) -> str:
        """The word itself, normalized."""
        return self.exact.removeprefix("e:")


@dataclass(frozen=True, slots=True, repr=False)
class Query:
    """The words of a query, each once, and the languages whose stems they have. Nothing of it is shown by ``repr``."""

    words: tuple[QueryWord, ...]
    languages: tuple[str, ...]

    @property
    def terms(self) -> tuple[str, ...]:
        """Every term to look up, each once."""
        return tuple(dict.fromkeys(term for word in self.words for term in (word.exact, *word.stems)))


@dataclass(frozen=True, slots=True, repr=False)
class _Needle:
    """One text to find in a vector: ``line`` is its start there, ``parent`` the needle it begins with, or -1."""

    line: bytes
    parent: int
    wanted: Mapping[int, str]


@dataclass(frozen=True, slots=True, repr=False)
class Probe:
    """Terms made ready to be looked up in many vectors."""

    needles: tuple[_Needle, ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """Where a query's word with the number ``word`` stands in a text: characters ``start`` to ``end``."""

    start: int
    end: int
    word: int


def terms_of_page(
    title: str,
    tags: Iterable[str],
    type: str | None,  # noqa: A002 - the frontmatter key's name
    path: str,
    body: str,
    language: str | None = None,
) -> TermVector:
    """Count a page's terms; the words of its title and tags weigh double, and those of its path count too.

    Words are stemmed in the language that the page's own words tell, else in ``language`` (a BCP 47 tag, such as the
    profile's first), else as English. Never fails, whatever the text.
    """
    tags = tuple(tags)
    counts: Counter[str] = Counter()
    for weight, text in ((_PATH_WEIGHT, path), (_TAG_WEIGHT, " ".join(tags)), (_TITLE_WEIGHT, title), (1, body)):
        for word, count in Counter(_words(text)).items():
            counts[word] += weight * count
    kept = dict(islice(counts.items(), MAX_WORDS))
    stem = _stemmer(_page_language(kept, language))
    frequencies: Counter[str] = Counter()
    for word, count in kept.items():
        exact, stemmed = _forms(word, stem)
        frequencies["e:" + exact] += count
        frequencies["s:" + stemmed] += count
    for term in _labels(tags, type, path):
        frequencies[term] = 1
    if len(counts) > len(kept):
        frequencies[CUT_TERM] = 1
    return TermVector(sum(kept.values()), {term: min(count, MAX_TF) for term, count in frequencies.items()})


def terms_of_query(text: str, language: str | None = None) -> Query:
    """The words of a query, ``MAX_QUERY_WORDS`` at most, as pages may have filed them.

    A page is stemmed in its own language: so besides the query's, ``language``, English and the bare word are looked
    up, and every language we know when the query does not tell its own.
    """
    words = list(dict.fromkeys(islice(_words(text), MAX_QUERY_WORDS)))
    languages = _query_languages(words, language)
    stemmers = [_stemmer(name) for name in languages]
    found: dict[str, dict[str, None]] = {}
    for word in words:
        stems = found.setdefault("e:" + _fold(word), {})
        stems.update(dict.fromkeys(f"s:{stem}" for _, stem in (_forms(word, each) for each in (*stemmers, None))))
    common = _common(languages[0])
    return Query(
        tuple(
            QueryWord(exact, tuple(stems), COMMON_WEIGHT if exact.removeprefix("e:") in common else 1.0)
            for exact, stems in found.items()
        ),
        languages,
    )


class Finder:
    """Finds the words of one query in texts. ``looked`` counts the characters it has looked at, for a bound on them."""

    __slots__ = ("_by_term", "_known", "_longest", "_sought", "_starts", "_stemmers", "looked")

    def __init__(self, query: Query) -> None:
        self.looked = 0
        self._by_term: dict[str, int] = {}
        for number, word in enumerate(query.words):
            for term in (word.exact, *word.stems):
                self._by_term.setdefault(term, number)
        self._stemmers = [_stemmer(name) for name in query.languages]
        # A stemmer changes the last letters of a word at most.
        forms = {term.partition(":")[2] for term in self._by_term}
        self._starts = tuple({form[: max(2, len(form) - 2)] for form in forms})
        self._longest = max(map(len, self._starts), default=1)
        self._sought: list[str] = []
        for start in sorted(self._starts):
            # What begins with a start that is sought already is found with it.
            known = self._sought and start.startswith(self._sought[-1])
            if not known and _LETTERS.fullmatch(start) is not None:
                self._sought.append(start)
        self._known: dict[str, int | None] = {}

    def find(self, text: str, start: int = 0, end: int | None = None) -> Iterator[Hit]:
        """Where the words stand in a text as it was written, from ``start`` to ``end``, in order."""
        part = text if start == 0 and end is None else text[start:end]
        self.looked += len(part)
        known = self._known
        for first, last in self._pieces(part):
            piece = part[first:last]
            if piece not in known:
                known[piece] = self._number_of(piece)
            number = known[piece]
            if number is not None:
                yield Hit(start + first, start + last, number)

    def _pieces(self, text: str) -> Iterable[tuple[int, int]]:
        """The places of words that may be meant; of all words in an unspaced script."""
        if text.isascii():
            return sorted(self._beginning(text, text.lower()))
        if _IS_UNSPACED.search(text) is not None:
            return (place for token in _TOKEN.finditer(text) for place in _pieces(token))
        return sorted({*self._beginning(text, text.translate(_CLEAR)), *self._unclear(text)})

    def _beginning(self, text: str, folded: str) -> Iterator[tuple[int, int]]:
        """The places of words whose letters, each folded by itself, begin as one that is sought."""
        end_of = _LETTERS.match
        for start in self._sought:
            at = folded.find(start)
            while at >= 0:
                word = end_of(text, at)
                end = at + 1 if word is None else word.end()
                if word is not None and (at == 0 or end_of(text, at - 1, at) is None):
                    yield at, end
                at = folded.find(start, end)

    def _unclear(self, text: str) -> Iterator[tuple[int, int]]:
        """The places of words with a letter that may be others once it is normalized, where that may matter."""
        done = 0
        for match in _UNCLEAR.finditer(text):
            at = match.start()
            word = _LETTERS.match(text, at) if at >= done else None
            if word is None:
                continue
            first, done = at, word.end()
            while first > 0 and at - first < self._longest and _LETTERS.match(text, first - 1, first) is not None:
                first -= 1
            if at - first < self._longest:
                yield first, done

    def _number_of(self, piece: str) -> int | None:
        word = _normalize(piece)[:MAX_WORD_CHARS]
        exact = _fold(word)
        if not exact.startswith(self._starts):
            return None
        by_term = self._by_term
        if "e:" + exact in by_term:
            return by_term["e:" + exact]
        stems = ("s:" + _forms(word, stem)[1] for stem in (*self._stemmers, None))
        return next((by_term[stem] for stem in stems if stem in by_term), None)


def find(text: str, query: Query) -> Iterator[Hit]:
    """Where the words of a query stand in a text as it was written, in order."""
    return Finder(query).find(text)


def plain(text: str) -> str:
    """A text for ``side_by_side``: normalized, case and accents away."""
    return _fold(_normalize(text))


def side_by_side(phrase: str) -> re.Pattern[str] | None:
    """What finds the words of a phrase one after another in a ``plain`` text; None when it has no words."""
    words = re.findall(_WORD, plain(phrase))
    if not words:
        return None
    before = "" if _IS_UNSPACED.match(words[0]) else rf"(?<![\w{_MARKS}])"
    after = "" if _IS_UNSPACED.match(words[-1][-1]) else rf"(?![\w{_MARKS}])"
    between = rf"[^\w{_MARKS}{_UNSPACED}\x00]+"
    return re.compile(f"{before}{between.join(map(re.escape, words))}{after}")


def certain_terms(phrase: str) -> list[str]:
    """Exact terms of every page that has this phrase; fewer than its words where a script writes no spaces."""
    words = [_fold(word) for word in islice(_words(phrase), MAX_QUERY_WORDS) if _JOINERS.search(word) is None]
    return [f"e:{word}" for word in words if len(word) > 1 or _IS_UNSPACED.match(word) is None]


def lone_term(text: str) -> str | None:
    """The exact term of a text that is one word; None when it is more or none."""
    words = list(islice(_words(text), 2))
    return f"e:{_fold(words[0])}" if len(words) == 1 and len(words[0]) < MAX_WORD_CHARS else None


def has_words(text: str) -> bool:
    """Whether there is anything to look for in a text."""
    return next(_words(text), None) is not None


def is_long_query(text: str) -> bool:
    """Whether a query has more words than are looked up."""
    return next(islice(_words(text), MAX_QUERY_WORDS, None), None) is not None


def tag_term(tag: str) -> str:
    """The term of a whole tag, for filters."""
    return "tag:" + _label(tag)


def type_term(type_: str) -> str:
    """The term of a page's type, for filters."""
    return "type:" + _label(type_)


def path_term(segment: str) -> str:
    """The term of one path segment, for filters."""
    return "path:" + _label(segment)


def encode(vector: TermVector) -> bytes:
    """Write a vector for ``lookup``: a header with the length, then one line per text and kind, sorted.

    A line is the text in UTF-8, a byte below 0x20 for its kind, and one byte for the count; so a text's lines stand
    before those of every longer text that begins with it. A stem's line is left out where the word itself has the
    same count. Raises ValueError for a term that ``terms_of_page`` would not make.
    """
    return b"\n".join([_VERSION + str(vector.length).encode(), *sorted(_stored_lines(vector.frequencies))])


def decode(blob: bytes | bytearray | memoryview) -> TermVector:
    """Read a whole vector; raises CorruptError for what ``encode`` does not write."""
    data = bytes(blob)
    header, *lines = data.split(b"\n")
    match = _HEADER.fullmatch(header)
    vector = None if match is None else _read_lines(int(match[1]), lines)
    if vector is None or encode(vector) != data:
        raise CorruptError("a stored term vector is not in its canonical form")
    return vector


def length_of(blob: Blob) -> int:
    """A stored vector's length, without reading the rest; raises CorruptError."""
    match = _HEADER.match(blob)
    if match is None:
        raise CorruptError("a stored term vector has no header")
    return int(match[1])


def lines_of(blob: Blob) -> list[bytes]:
    """A stored vector's lines: a text, a byte for its kind, and one for its count."""
    return bytes(blob).split(b"\n")[1:]


def key_of(term: str) -> bytes:
    """How a term's line begins: its text and the byte for its kind."""
    kind, text = _split(term)
    return text.encode() + bytes([kind])


def probe(terms: Iterable[str]) -> Probe:
    """Make terms ready for ``lookup``; worth it when there is more than one vector."""
    wanted: dict[bytes, dict[int, str]] = {}
    for term in terms:
        kind, text = _split(term)
        wanted.setdefault(b"\n" + text.encode(), {})[kind] = term
    needles: list[_Needle] = []
    lines = sorted(wanted)
    for number, line in enumerate(lines):
        parent = next((other for other in range(number - 1, -1, -1) if line.startswith(lines[other])), -1)
        needles.append(_Needle(line, parent, MappingProxyType(wanted[line])))
    return Probe(tuple(needles))


def lookup(blob: Blob, terms: Probe | Iterable[str]) -> dict[str, int]:
    """The counts of those of ``terms`` that a stored vector holds, without decoding it.

    Costs one substring search per text, and none for a text that begins with one that no term begins with.
    Raises CorruptError where a line is cut off.
    """
    ready = terms if isinstance(terms, Probe) else probe(terms)
    found: dict[str, int] = {}
    places: list[int] = []
    search = blob.find
    for needle in ready.needles:
        parent = needle.parent
        place = search(needle.line) if parent < 0 else -1 if places[parent] < 0 else search(needle.line, places[parent])
        places.append(place)
        if place >= 0:
            _collect(blob, place, needle, found)
    return found


def _collect(blob: Blob, place: int, needle: _Needle, found: dict[str, int]) -> None:
    size = len(needle.line)
    exact = stem = -1
    try:
        while (kind := blob[place + size]) < FIRST_COUNT_BYTE:
            count = blob[place + size + 1] - FIRST_COUNT_BYTE
            if kind == EXACT_KIND:
                exact = count
            elif kind == STEM_KIND:
                stem = count
            if kind in needle.wanted and count > 0:
                found[needle.wanted[kind]] = count
            place += size + 2
            if not blob.startswith(needle.line, place):
                break
    except IndexError:
        raise CorruptError("a stored term vector ends inside a line") from None
    if stem < 0 < exact and STEM_KIND in needle.wanted:
        found[needle.wanted[STEM_KIND]] = exact


def _stored_lines(frequencies: Mapping[str, int]) -> Iterator[bytes]:
    """The lines to write: without the stems that ``lookup`` infers, with a zero for those it must not infer."""
    for term, count in frequencies.items():
        kind, text = _split(term)
        if kind == STEM_KIND and frequencies.get("e:" + text) == count:
            continue
        if not text or not 0 <= count <= MAX_TF or _CONTROL.search(text) is not None:
            raise ValueError("a term must be text without control characters, and its count at most MAX_TF")
        data = text.encode()
        yield data + _ENDS[kind][count]
        if kind == EXACT_KIND and "s:" + text not in frequencies:
            yield data + _ENDS[STEM_KIND][0]


def _split(term: str) -> tuple[int, str]:
    name, _, text = term.partition(":")
    if name not in _KINDS:
        raise ValueError("a term must begin with its kind")
    return _KINDS[name], text


def _read_lines(length: int, lines: list[bytes]) -> TermVector | None:
    # Returns None instead of raising: the decoder's exceptions carry the text.
    frequencies: dict[str, int] = {}
    for line in lines:
        kind = line[-2] if len(line) > 2 else 0  # noqa: PLR2004 - text, kind, count
        if kind not in _KIND_NAMES or line[-1] < FIRST_COUNT_BYTE:
            return None
        try:
            text = line[:-2].decode()
        except UnicodeDecodeError:
            return None
        frequencies[f"{_KIND_NAMES[kind]}:{text}"] = line[-1] - FIRST_COUNT_BYTE
        if _CONTROL.search(text) is not None:
            return None
    for term in [term for term in frequencies if term.startswith("e:")]:
        frequencies.setdefault("s:" + term[2:], frequencies[term])
    return TermVector(length, {term: count for term, count in frequencies.items() if count > 0})


def _words(text: str) -> Iterator[str]:
    """The words of a text, normalized but not yet folded, since stemmers want accents."""
    for token in _TOKEN.findall(_normalize(text)):
        if token.isascii() and token.isalnum():
            yield token[:MAX_WORD_CHARS]
            continue
        parts = [part for part in _JOINERS.split(token) if part]
        for part in parts:
            yield from _runs(part)
        if len(parts) > 1 and len(token) <= MAX_WORD_CHARS:
            yield token.strip("_")


def _runs(part: str) -> Iterator[str]:
    if part.isascii():
        yield part[:MAX_WORD_CHARS]
        return
    for run in _RUN.findall(part):
        if _IS_UNSPACED.match(run) is None:
            yield run[:MAX_WORD_CHARS]
        elif len(run) == 1:
            yield run
        else:
            yield from (run[at : at + 2] for at in range(len(run) - 1))


def _pieces(token: re.Match[str]) -> Iterator[tuple[int, int]]:
    """The places of a token's words in the text as it was written: its parts, or pairs of characters."""
    for run in _RUN.finditer(token[0]):
        start = token.start() + run.start()
        if _IS_UNSPACED.match(run[0]) is not None:
            last = max(len(run[0]) - 1, 1)
            yield from ((start + at, min(start + at + 2, start + len(run[0]))) for at in range(last))
            continue
        begin = 0
        for joiner in (*_JOINERS.finditer(run[0]), None):
            end = len(run[0]) if joiner is None else joiner.start()
            if end > begin:
                yield start + begin, start + end
            begin = end if joiner is None else joiner.end()


def _normalize(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Case folding can undo compatibility forms, so they are made twice (Unicode Standard, D146).
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return folded.translate(_UNSEEN)


def _fold(word: str) -> str:
    """The word without accents, so that both spellings find each other."""
    if word.isascii():
        return word
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", word))) or word


def _forms(word: str, stem: _Stem | None) -> tuple[str, str]:
    """The word as it stands and its stem; what holds a digit, a joiner or an unspaced script is its own stem."""
    exact = _fold(word)
    if stem is None or not word.isalpha() or _IS_UNSPACED.match(word) is not None:
        return exact, exact
    return exact, _fold(stem(word)) or exact


def _labels(tags: Iterable[str], type_: str | None, path: str) -> Iterator[str]:
    labels = (*map(tag_term, tags), type_term(type_ or ""), *map(path_term, path.split("/")))
    yield from (label for label in labels if label.partition(":")[2])


def _label(text: str) -> str:
    return _CONTROL.sub(" ", _fold(_normalize(text)).strip())[: 4 * MAX_WORD_CHARS]


def _stemmer(language: str) -> _Stem:
    # Made anew for each call: a stemmer keeps the words it has seen.
    stem: _Stem = snowballstemmer.stemmer(language).stemWord
    return stem


def _page_language(counts: Mapping[str, int], language: str | None) -> str:
    return _detect(counts, _MIN_PAGE_VOTES) or _given(language) or _FALLBACK


def _query_languages(words: list[str], language: str | None) -> tuple[str, ...]:
    if any(_CYRILLIC.match(word) for word in words):
        return ("russian", _FALLBACK)
    told = _detect(dict.fromkeys(words, 1), 1)
    return _LATIN if told is None else tuple(dict.fromkeys((told, _given(language) or _FALLBACK, _FALLBACK)))


def _common(language: str) -> frozenset[str]:
    words = f"{_TELLING.get(language, '')} {_COMMON[language]}".split()
    return frozenset(map(_fold, words))


def _given(language: str | None) -> str | None:
    return None if language is None else _LANGUAGES.get(language.partition("-")[0].lower())


def _detect(counts: Mapping[str, int], min_votes: int) -> str | None:
    """The language most telling words vote for; None with fewer votes or a tie."""
    if not counts:
        return None
    if sum(map(bool, map(_CYRILLIC.match, counts))) * 2 > len(counts):
        return "russian"
    votes: Counter[str] = Counter()
    for word in counts.keys() & _VOTES.keys():
        for language in _VOTES[word]:
            votes[language] += counts[word]
    best = votes.most_common(2)
    if not best or best[0][1] < min_votes or (len(best) > 1 and best[0][1] == best[1][1]):
        return None
    return best[0][0]


def _clear_letters() -> Iterator[tuple[int, str]]:
    for number in range(_FIRST_FAR):
        letter = chr(number)
        if _LETTERS.fullmatch(letter) is not None and _ACCENTS.match(letter) is None:
            folded = _fold(_normalize(letter))
            if len(folded) == 1 and _LETTERS.fullmatch(folded) is not None:
                yield number, folded


_FIRST_FAR: Final = 0x530
"""Latin, Greek and Cyrillic are before it."""
_FOLDED: Final = dict(_clear_letters())
_CLEAR: Final[Mapping[int, str]] = MappingProxyType({number: chr(number) for number in range(_FIRST_FAR)} | _FOLDED)
"""Letters that are one other letter when they are folded by themselves, whatever stands around them."""
_UNCLEAR: Final = re.compile(
    "[{}{}-\U0010ffff]".format(
        "".join(
            re.escape(chr(number))
            for number in range(_FIRST_FAR)
            if number not in _FOLDED and _LETTERS.fullmatch(chr(number)) is not None
        ),
        chr(_FIRST_FAR),
    )
)
