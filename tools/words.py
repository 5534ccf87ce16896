#!/usr/bin/env python3
"""Holds doc comments and names to the plain words that CONTRIBUTING.md asks for. Run it in the repository's root.

  words.py          prints the figures of each crate; fails if one is above its aim
  words.py CRATE    lists the doc comments of a crate that count, such as crates/net

Figures of a crate, in percent:
  pronouns   of the words in first sentences of doc comments: "it", "those", "what" in the place of a noun
  who        of these first sentences: sentences with "who", "whose", "what", "those", "none of"
  riddles    of the doc comments: comments that begin with a word that names neither a thing nor an action

Figures of the workspace: functions that take a tuple, type names of one word, type names that several files define.
Code in backticks and links do not count, nor do tests. A figure tells where to look: rewrite for the reader, not for the count.
"""
import re
import subprocess
import sys
from pathlib import Path

AIM = (2.0, 3.0, 3.0)
# Limits of the workspace: number of functions that take a tuple; percentage of one-word types; percentage of type names
# that several files define.
TUPLES, ONE_WORD, SEVERAL = 7, 32, 6

RIDDLE = set(
    "What Whether Where Who Whose Of That Which How Those Nothing Nobody As So One Not In To At If It They But More Such None All".split()
)
PRONOUN = set(
    "it its they them their those one ones what whatever whoever who whom whose none nothing nobody others".split()
)
WHO = re.compile(r"\b(whose|who|whoever|what|those|none of)\b", re.I)
TUPLE = re.compile(r"\bfn\s+\w+[^{;]*?[(,]\s*(?:\w+|\([^()]*\))\s*:\s*&?\s*(?:'\w+\s+)?(?:mut\s+)?\([^()]*,", re.S)
TYPE = re.compile(r"^\s*(?:pub(?:\([a-z: ]+\))? )?(?:struct|enum|trait|union) ([A-Z]\w*)", re.M)


def comments(text):
    """Line number and text of each comment: lines of `//`, `///` or `//!` that follow each other."""
    start, words = 0, []
    for number, line in enumerate(text.split("\n") + [""], 1):
        m = re.match(r"\s*//[/!]? ?(.*)", line)
        if m:
            start = start if words else number
            words.append(m.group(1).strip() or ".")
        elif words:
            yield start, " ".join(words)
            words = []


def judged(comment):
    """Numbers of words and pronouns in the first sentence; true if it says who or what; true if the comment is a riddle."""
    plain = re.sub(r"`[^`]*`|\[[^\]]*\]|\([^)]*\)", " X ", comment)
    sentence = re.split(r"(?<=[.!?])\s", plain)[0]
    words = [word.lower() for word in re.findall(r"[A-Za-z']+", sentence)]
    first = re.match(r"[`\[]*([A-Za-z']+)", comment)
    riddle = bool(first and first.group(1) in RIDDLE)
    return len(words), sum(word in PRONOUN for word in words), bool(WHO.search(sentence)), riddle


def sources():
    """Crate, path and text of each source that is no test."""
    listed = subprocess.run(["git", "ls-files", "*.rs"], capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        if not re.search(r"(^|/)tests?(/|\.rs$)", name) and Path(name).exists():
            yield "/".join(name.split("/")[: 2 if name.startswith("crates/") else 1]), name, Path(name).read_text(encoding="utf-8")


def main():
    wanted = sys.argv[1].rstrip("/") if len(sys.argv) > 1 else None
    crates, types, tuples = {}, {}, 0
    for crate, name, text in sources():
        for line, comment in comments(text):
            words, pronouns, who, riddle = judged(comment)
            row = crates.setdefault(crate, [0, 0, 0, 0, 0])
            for at, count in enumerate((1, words, pronouns, who, riddle)):
                row[at] += count
            if crate == wanted and (who or riddle or pronouns >= 2):
                print(f"{name}:{line}: {comment[:140]}")
        tuples += len(TUPLE.findall(text))
        for kind in set(TYPE.findall(text)):
            types[kind] = types.get(kind, 0) + 1
    if wanted:
        return 0
    high = 0
    for crate, (docs, words, pronouns, who, riddles) in sorted(crates.items()):
        figures = (100 * pronouns / max(words, 1), 100 * who / docs, 100 * riddles / docs)
        above = any(figure > most + 0.05 for figure, most in zip(figures, AIM))
        high += above
        said = "   ".join(f"{name} {figure:4.1f} of {most:g}" for name, figure, most in zip(("pronouns", "who", "riddles"), figures, AIM))
        print(f"{crate:20} {said} %{'   ABOVE THE AIM' if above else ''}")
    one_word = 100 * sum(len(re.findall("[A-Z][a-z0-9]*", kind)) <= 1 for kind in types) / len(types)
    several = 100 * sum(count > 1 for count in types.values()) / len(types)
    above = tuples > TUPLES or one_word > ONE_WORD + 0.5 or several > SEVERAL + 0.5
    high += above
    print(
        f"functions that take a tuple {tuples} of {TUPLES}, types of one word {one_word:.0f} of {ONE_WORD} %, "
        f"types that several files define {several:.0f} of {SEVERAL} %{'   ABOVE THE CEILING' if above else ''}"
    )
    return 1 if high else 0


sys.exit(main())
