#!/usr/bin/env python3
"""Holds the code to the shape that CONTRIBUTING.md asks for. Run it in the repository's root.

  shape.py    lists every place that is out of shape; fails if there is one

A file has at most 600 lines, a function 60: one `match` or literal of short entries is a table, and may be longer. A struct
has 15 fields, but for plain data: it is cloned, parsed or serialised, and no field is private. A function has 5 parameters;
those of a tuple count one by one. No more than two files of a crate import each other in a circle; a name counts as imported
from the file that defines it, even if another file re-exports it. Where `FOLDERS` orders the folders of a crate, no file imports from a
folder above its own. The files of a portable directory name no file system, thread or clock. Tests are left out.

No static of the crates in the default binary changes, except those of `STATICS`: state belongs to a value, so that a program
can have two. A constant that is computed once is no state: a `LazyLock`, or a `OnceLock` inside the function that fills it.
"""
import re
import subprocess
import sys
from pathlib import Path

MAX_LINES, MAX_FUNCTION, MAX_FIELDS, MAX_PARAMETERS, MAX_CIRCLE = 600, 60, 15, 5, 2
MAX_ENTRY = 12
# Directories with files that could be built for a machine without files, threads and clock; and the names that such
# files must not contain.
PORTABLE = ("crates/worker/src",)
NATIVE = re.compile(
    r"\b(deltic_store_local|deltic_net|nix|rustix|libc|tokio|getrandom)::"
    r"|\bstd::(os|fs|net|process|thread|env)\b|\b(Instant|SystemTime|Condvar|Barrier|mpsc)\b"
)
# Statics that may change, by file, with the reason for each.
STATICS = {
    "crates/core/src/simd/mod.rs": {"CHOSEN": "the processor's features, or the user's choice at the start"},
    "crates/net/src/executor/mod.rs": {"SHARED": "threads for the processors, which all sessions of the machine share"},
    "crates/engine/src/pack.rs": {
        "COMPRESSOR": "zstd context of this thread",
        "DECOMPRESSOR": "zstd context of this thread",
    },
    "crates/worker/src/stage.rs": {"METER": "stopwatch of this thread"},
    "crates/net/src/transport/spare.rs": {"SPARE": "buffers of this thread"},
    "crates/worker/src/base_sums.rs": {"TAKEN": "memory of the process that is reserved for tables"},
    "crates/serve/src/server/rest/incoming.rs": {"MEMORY": "memory of the process that is reserved for bodies"},
    "crates/store/src/memory/tree.rs": {"TREES": "counts names that must be unique"},
    "crates/store-local/src/bytes/copy.rs": {"BUFFER": "buffer of this thread"},
    "crates/store-local/src/handles/dir.rs": {
        "KNOWN": "a call that the kernel has",
        "NAMES_BUFFER": "buffer of this thread",
    },
    "crates/store-local/src/facts/mod.rs": {"IS_REFUSED": "a privilege that the process lacks"},
    "crates/store-local/src/facts/service.rs": {"CLIENT": "connections to the one service of facts of the machine"},
    "crates/store-local/src/facts/sums.rs": {"IS_MISSING": "a call that the kernel lacks"},
    "crates/store-local/src/read/lease.rs": {"ONCE": "the process has one handler of a signal"},
    "crates/store-local/src/handles/place.rs": {"TURNS": "two stores on one directory exclude each other"},
    "crates/store-local/src/store/spelling.rs": {"NEXT": "counts names that must be unique"},
    "crates/store-local/src/keep/versions.rs": {"TURNS": "two stores on one directory exclude each other"},
}
# Folders of a crate, from the bottom up: a file imports from its own folder and the folders before it.
FOLDERS = {
    "crates/store-local/src": (
        "kernel", "facts", "bytes", "handles", "roots", "attributes", "read", "cache", "staging", "keep", "commit", "store",
    ),
}
# Crates and files that are no part of the default binary.
OTHER_BINARIES = ("crates/bench/", "crates/serve/fuzz/", "crates/serve/src/server/fuzz.rs")
STATIC = re.compile(r"^([ \t]*)(?:pub(?:\([^)]*\))? )?static (mut )?(\w+)\s*:([^=;]*)", re.M)
CHANGES = re.compile(r"\b(Mutex|RwLock|Condvar|Semaphore|Atomic\w+|Cell|RefCell|UnsafeCell|OnceCell|Once|Executor|FactsClient)\b")
BLANK = re.compile(
    r'//[^\n]*|/\*.*?\*/|r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.|[^\'\\])\'', re.S
)


def bare(source):
    """The source with comments and literals replaced by blanks; lines and columns stay."""
    return BLANK.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), source)


def closing(text, at):
    """The index after the bracket that closes the bracket at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i + 1
    return len(text)


def without_tests(text):
    """The text without the items that have `#[cfg(test)]` or `#[test]`; lines and columns stay."""
    for m in reversed(list(re.finditer(r"#\[cfg\((?:all\()?test\b[^\n]*\]|#\[test\]", text))):
        end = re.compile(r"[;{]").search(text, m.end())
        if end:
            stop = closing(text, end.start()) if end.group(0) == "{" else end.end()
            text = text[: m.start()] + re.sub(r"[^\n]", " ", text[m.start() : stop]) + text[stop:]
    return text


def parts(text):
    """The comma-separated parts of the text within a bracket."""
    found, depth, last = [], 0, 0
    for i, c in enumerate(text):
        angle = (c == "<") - (c == ">" and text[i - 1 : i] not in ("-", "="))
        depth += (c in "([{") - (c in ")]}") + angle
        if c == "," and depth == 0:
            found.append(text[last:i])
            last = i + 1
    return [part.strip() for part in found + [text[last:]] if part.strip()]


def parameters(text):
    """Number of values in a list of parameters, without `self`. Each part of a tuple counts."""
    count = 0
    for part in parts(text):
        if re.match(r"(&\s*)?('\w+\s+)?(mut\s+)?self\b", part):
            continue
        kind = part.split(":", 1)[1].strip() if ":" in part else part
        kind = re.sub(r"^&\s*('\w+\s+)?(mut\s+)?", "", kind)
        count += len(parts(kind[1:-1])) if kind.startswith("(") and kind.endswith(")") else 1
    return count


def is_table(body):
    """True if a body is a table: at most three statements, without a long entry."""
    depth, opened, longest, statements, line = 0, {}, 0, 0, 0
    for c in body[1:-1]:
        line += c == "\n"
        if c in "([{":
            depth += 1
            opened[depth] = line
        elif c in ")]}":
            if depth >= 2:
                longest = max(longest, line - opened.get(depth, line) + 1)
            depth -= 1
        statements += c == ";" and depth == 0
    return statements <= 2 and longest <= MAX_ENTRY


def odd_functions(path, text):
    for m in re.finditer(r"\bfn (\w+)", text):
        at = text.find("(", m.end())
        generics = re.match(r"\s*<", text[m.end() :])
        if generics:
            depth, i = 0, m.end()
            while True:
                depth += (text[i] == "<") - (text[i] == ">" and text[i - 1] not in "-=")
                i += 1
                if depth == 0 and text[i - 1] == ">":
                    break
            at = text.find("(", i)
        end = closing(text, at)
        count = parameters(text[at + 1 : end - 1])
        if count > MAX_PARAMETERS:
            yield f"{path}: {m.group(1)} takes more than {MAX_PARAMETERS} parameters", count
        body = re.compile(r"[;{]").search(text, end)
        if body and body.group(0) == "{":
            block = text[body.start() : closing(text, body.start())]
            length = block.count("\n") + 1
            if length > MAX_FUNCTION and not is_table(block):
                yield f"{path}: {m.group(1)} is longer than {MAX_FUNCTION} lines", length


def odd_structs(path, text):
    for m in re.finditer(r"\bstruct (\w+)[^;{(]*\{", text):
        fields = parts(re.sub(r"#\[[^\]]*\]", "", text[m.end() : closing(text, m.end() - 1) - 1]))
        derives = text[text.rfind("}", 0, m.start()) + 1 : m.start()]
        is_data = re.search(r"derive\([^)]*\b(Clone|Args|Serialize)\b", derives)
        is_data = is_data and all(field.startswith("pub") for field in fields)
        if len(fields) > MAX_FIELDS and not is_data:
            yield f"{path}: {m.group(1)} has more than {MAX_FIELDS} fields", len(fields)


def odd_statics(path, text):
    for indent, mut, name, kind in STATIC.findall(text):
        changes = mut or CHANGES.search(kind) or "OnceLock" in kind and not indent
        if changes and name not in STATICS.get(str(path), {}):
            yield f"{path}: {name} is a static that changes", " ".join(kind.split())


def module_of(path, root):
    """The module path of a file: a tuple of names below the crate."""
    names = list(path.relative_to(root).with_suffix("").parts)
    return tuple(names[:-1] if names[-1] in ("mod", "lib", "main") else names)


def leaves(text, prefix=()):
    """Each path that the tree of a `use` imports, with the name that the importing file uses."""
    for part in parts(text):
        m = re.match(r"^((?:\w+::)*)\{(.*)\}$", part, re.S)
        if m:
            yield from leaves(m.group(2), prefix + tuple(m.group(1).split("::")[:-1]))
        else:
            path, _, alias = part.partition(" as ")
            names = prefix + tuple(path.strip().split("::"))
            yield names, (alias.strip() or names[-1])


def absolute(names, module):
    """The path below the crate that names mean in a module, or `None` outside the crate."""
    if names[0] == "crate":
        return names[1:]
    if names[0] in ("self", "super"):
        here, rest = list(module), list(names)
        while rest and rest[0] in ("self", "super"):
            if rest.pop(0) == "super":
                here = here[:-1]
        return tuple(here) + tuple(rest)
    return None


def arrows(files, root):
    """The imports within one crate: for each file, the files that it imports."""
    modules = {module_of(path, root): path for path in files}
    passed = {}  # (module, name) -> the path that is passed on
    for path, text in files.items():
        module = module_of(path, root)
        for m in re.finditer(r"\bpub(?:\([^)]*\))? use ([^;]+);", text):
            for names, alias in leaves(m.group(1)):
                full = absolute(names, module) or (module + names if module + names[:1] in modules else None)
                if full:
                    passed[module, alias] = full
    found = {path: set() for path in files}

    def target(full, steps=0):
        for end in range(len(full), -1, -1):
            if full[:end] in modules:
                rest = full[end:]
                if rest and (full[:end], rest[0]) in passed and steps < 8:
                    return target(passed[full[:end], rest[0]] + rest[1:], steps + 1)
                return modules[full[:end]]
        return None

    for path, text in files.items():
        module = module_of(path, root)
        plain = re.sub(r"\bpub(?:\([^)]*\))? use [^;]+;", "", text)
        paths = [n for m in re.finditer(r"\buse ([^;]+);", plain) for n, _ in leaves(m.group(1))]
        rest = re.sub(r"\buse [^;]+;", "", plain)
        paths += [tuple(m.group(0).split("::")) for m in re.finditer(r"\b(?:crate|super|self)(?:::\w+)+", rest)]
        children = {mod[-1] for mod in modules if mod[:-1] == module and mod}
        paths += [
            ("self",) + tuple(m.group(0).split("::"))
            for m in re.finditer(r"(?<![:\w])(\w+)(?:::\w+)+", rest)
            if m.group(1) in children
        ]
        paths = [("self",) + n if n[0] in children else n for n in paths]
        for names in paths:
            full = absolute(names, module)
            to = target(full) if full is not None else None
            if to and to != path:
                found[path].add(to)
    return found


def circles(graph):
    """The strongly connected components with more than one file."""
    index, low, stack, on, found = {}, {}, [], set(), []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        on.add(v)
        for w in graph[v]:
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            ring = []
            while True:
                w = stack.pop()
                on.discard(w)
                ring.append(w)
                if w == v:
                    break
            if len(ring) > 1:
                found.append(sorted(ring))

    sys.setrecursionlimit(10_000)
    for v in graph:
        if v not in index:
            visit(v)
    return found


def odd_circles(graph, root):
    for ring in circles(graph):
        if len(ring) > MAX_CIRCLE:
            names = ", ".join(str(path.relative_to(root)) for path in ring)
            yield f"{root}: {ring[0].relative_to(root)} is in a circle of more than {MAX_CIRCLE} files", f"{len(ring)}: {names}"


def odd_folders(graph, root):
    order = FOLDERS.get(str(root), ())
    for path, imported in graph.items() if order else ():
        names = [to.relative_to(root).parts[0] for to in (path, *sorted(imported))]
        if names[0] == "lib.rs":
            continue
        if names[0] not in order:
            yield f"{path}: is in no folder of FOLDERS", names[0]
            continue
        above = [name for name in names if name not in order[: order.index(names[0]) + 1]]
        if above:
            yield f"{path}: imports from a folder above its own", ", ".join(above)


def survey():
    listed = subprocess.run(["git", "ls-files", "*.rs"], capture_output=True, text=True, check=True)
    crates = {}
    for name in listed.stdout.split():
        path = Path(name)
        if "src" in path.parts and not re.search(r"(^|/)tests?(/|\.rs$)", name) and path.exists():
            root = Path(*path.parts[: path.parts.index("src") + 1])
            text = without_tests(bare(path.read_text(encoding="utf-8")))
            crates.setdefault(root, {})[path] = text
    for root, files in sorted(crates.items()):
        for path, text in sorted(files.items()):
            length = len(text.rstrip().split("\n"))
            if length > MAX_LINES:
                yield f"{path}: longer than {MAX_LINES} lines", length
            yield from odd_functions(path, text)
            yield from odd_structs(path, text)
            if str(path).startswith(PORTABLE) and (m := NATIVE.search(text)):
                yield f"{path}: names a thing of native programs in a portable directory", m.group(0)
            if not str(path).startswith(OTHER_BINARIES):
                yield from odd_statics(path, text)
        graph = arrows(files, root)
        yield from odd_circles(graph, root)
        yield from odd_folders(graph, root)


def main():
    found = dict(survey())
    for place, figure in sorted(found.items()):
        print(f"{place} ({figure})")
    print(f"{len(found)} places out of shape")
    sys.exit(1 if found else 0)


main()
