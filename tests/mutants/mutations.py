"""Mutants of a C++ source: found with libclang, written into one instrumented copy that holds them all.

A mutant replaces a range of the text. Its replacement is a list of strings and of ranges (start, end) of the original
text. The copy evaluates `mutant::on(n) ? (replacement) : (original)`; mutants inside of a range appear in both. Line
numbers stay. Standard library and Debian's python3-clang-14.
"""

import ctypes
import dataclasses
import re

try:
    import clang.cindex as cindex
    from clang.cindex import CursorKind as Kind
except ImportError:  # asked by available()
    cindex = Kind = None

HEADER = "tests/mutants/mutant.h"
# Calls whose arguments are text for people, and checks of what only a bug can cause.
TEXT_CALLS = re.compile(r"^(format|invalid|missing|failed|wrong|precondition|check_failed|join|note|say|str)$")
CHECK_MACROS = {"SCALAI_CHECK", "assert"}
SWAPS = {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="],
         "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"], "|": ["&"], "&": ["|"],
         "+=": ["-="], "-=": ["+="], "*=": ["/="], "/=": ["*="], "|=": ["&="], "&=": ["|="]}


@dataclasses.dataclass
class Mutant:
    path: str
    line: int
    column: int
    start: int
    end: int
    operator: str      # the kind of edit
    original: str      # on one line
    change: str        # the edit for people
    pieces: list       # strings and [start, end]
    statement: bool    # the range is a statement without its semicolon
    number: int = -1

    def key(self):
        return (self.start, self.end, self.operator, self.change)


def available():
    """An empty string, or the reason why there is no libclang."""
    if cindex is None:
        return "no Python module clang.cindex (Debian: python3-clang-14)"
    try:
        cindex.Index.create()
    except cindex.LibclangError as error:
        return f"no libclang: {str(error).splitlines()[0]}"
    return ""


def short(text, length=100):
    text = " ".join(text.split())
    return text if len(text) <= length else text[:length - 1] + "…"


def offset_of(location):
    """The offset in the file, of the spelling within a macro's arguments too."""
    function = cindex.conf.lib.clang_getFileLocation
    numbers = [ctypes.c_uint() for _ in range(3)]
    if not function.argtypes:
        function.argtypes = [cindex.SourceLocation, ctypes.POINTER(ctypes.c_void_p)] + [
            ctypes.POINTER(ctypes.c_uint)] * 3
    function(location, ctypes.byref(ctypes.c_void_p()), *[ctypes.byref(number) for number in numbers])
    return numbers[2].value


def parse(path, text, arguments):
    # Skipping the bodies of headers' functions would save little; macros are needed.
    unit = cindex.Index.create().parse(path, args=[*arguments, "-ferror-limit=0"], unsaved_files=[(path, text)],
                                       options=cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
    return unit


def precompiled(header, arguments, to):
    """Arguments that load the headers of a header quickly; none if libclang cannot read it."""
    options = cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD | cindex.TranslationUnit.PARSE_INCOMPLETE
    try:
        unit = cindex.Index.create().parse(header, args=["-x", "c++-header", *arguments], options=options)
        if errors_of(unit):
            return []
        unit.save(to)
        return ["-include-pch", to]
    except (cindex.TranslationUnitLoadError, cindex.TranslationUnitSaveError):
        return []


def errors_of(unit):
    return [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]


def error_lines(unit, path):
    return {d.location.line for d in errors_of(unit)
            if d.location.file is not None and d.location.file.name == path}


class Finder:
    """Walks the function bodies of one source. Offsets count bytes, as libclang does; the text is Latin-1 bytes."""

    def __init__(self, path, data, arguments):
        self.path = path
        self.text = data.decode("latin-1")
        self.found = {}
        self.macros = {}
        unit = parse(path, data.decode("utf-8"), arguments)
        # g++ knows more of C++20 than libclang 14, and decides in the end; without a header nothing can be read.
        self.errors = [str(error) for error in errors_of(unit) if error.severity == cindex.Diagnostic.Fatal]
        self.line_starts = [0] + [match.end() for match in re.finditer("\n", self.text)]
        for cursor in unit.cursor.get_children():
            if cursor.kind == Kind.MACRO_INSTANTIATION and self.is_here(cursor):
                self.macros[offset_of(cursor.extent.start)] = (offset_of(cursor.extent.end), cursor.spelling)
        for cursor in unit.cursor.get_children():
            if not cursor.kind.is_preprocessing() and self.is_here(cursor):
                self.declarations(cursor)

    def is_here(self, cursor):
        return cursor.location.file is not None and cursor.location.file.name == self.path

    def range_of(self, cursor):
        return offset_of(cursor.extent.start), offset_of(cursor.extent.end)

    # --- walking

    def declarations(self, cursor):
        if cursor.kind in (Kind.FUNCTION_DECL, Kind.CXX_METHOD, Kind.CONSTRUCTOR, Kind.DESTRUCTOR,
                           Kind.FUNCTION_TEMPLATE, Kind.CONVERSION_FUNCTION):
            start, end = self.range_of(cursor)
            if "constexpr" in self.text[start:end].split("{")[0].split():
                return
            result = cursor.result_type.spelling
            for child in cursor.get_children():
                if child.kind == Kind.COMPOUND_STMT:
                    self.walk(child, result)
                elif child.kind.is_expression():  # initialisers of members
                    self.walk(child, result)
            return
        for child in cursor.get_children():
            self.declarations(child)

    def walk(self, cursor, result):
        start, end = self.range_of(cursor)
        kind = cursor.kind
        macro = self.macros.get(start)
        from_macro = macro is not None and end >= macro[0]
        if from_macro and macro[1] in CHECK_MACROS:
            return
        if kind in (Kind.STATIC_ASSERT, Kind.TYPE_ALIAS_DECL, Kind.TYPEDEF_DECL):
            return
        if kind == Kind.DECL_STMT and re.match(r"\s*(static\s+)?constexpr\b", self.text[start:end]):
            return
        if kind == Kind.LAMBDA_EXPR:
            head = self.text[start:end].split("{")[0]
            result = head.split("->")[1].strip() if "->" in head else ""
        if from_macro and macro[1] == "SCALAI_RETURN_IF_ERROR":
            self.ignored_error(start, macro[0])
        if not from_macro:
            self.mutate(cursor, kind, start, end, result)
        children = list(cursor.get_children())
        if kind == Kind.CALL_EXPR and TEXT_CALLS.match(cursor.spelling or ""):
            return
        if kind == Kind.CASE_STMT:
            children = children[1:]
        for child in children:
            self.walk(child, result)

    def add(self, start, end, operator, change, pieces, statement=False):
        line = next(n for n in range(len(self.line_starts), 0, -1) if self.line_starts[n - 1] <= start)
        mutant = Mutant(self.path, line, start - self.line_starts[line - 1] + 1, start, end, operator,
                        short(self.text[start:end]), change, pieces, statement)
        self.found.setdefault(mutant.key(), mutant)

    # --- the edits

    def ignored_error(self, start, end):
        inner = self.text.index("(", start) + 1
        self.add(inner, end - 1, "ignored error", "a call dropped: OK in its place", ["absl::OkStatus()"])

    def mutate(self, cursor, kind, start, end, result):
        children = list(cursor.get_children())
        if kind in (Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR) or (
                kind == Kind.CALL_EXPR and cursor.spelling.startswith("operator")):
            self.binary(children, kind)
        elif kind == Kind.UNARY_OPERATOR and self.text[start] == "!" and len(children) == 1:
            inner = list(self.range_of(children[0]))
            if inner[0] > start:
                self.add(start, end, "negation", "without !", ["bool(", inner, ")"])
        elif kind == Kind.INTEGER_LITERAL:
            self.integer(start, end)
        elif kind == Kind.CXX_BOOL_LITERAL_EXPR:
            other = "false" if self.text[start:end] == "true" else "true"
            self.add(start, end, "constant", f"→ {other}", [other])
        elif kind == Kind.CALL_EXPR and cursor.spelling in ("min", "max"):
            self.extremum(start, end)
        elif kind == Kind.CONDITIONAL_OPERATOR and len(children) == 3:
            condition = list(self.range_of(children[0]))
            self.add(*condition, "negation", "condition negated", ["!(", condition, ")"])
        elif kind == Kind.IF_STMT:
            self.branch(children)
        elif kind in (Kind.WHILE_STMT, Kind.FOR_STMT, Kind.CXX_FOR_RANGE_STMT):
            self.statement(children[-1])
        elif kind == Kind.RETURN_STMT and children:
            self.returned(children[0], result)
        if kind == Kind.COMPOUND_STMT:
            for child in children:
                self.statement(child)
        elif kind in (Kind.CASE_STMT, Kind.DEFAULT_STMT) and children:
            self.statement(children[-1])

    def binary(self, children, kind):
        if len(children) < 2:
            return
        if kind == Kind.CALL_EXPR and len(children) != 3:
            return
        left, right = list(self.range_of(children[0])), list(self.range_of(children[-1]))
        operator = self.text[left[1]:right[0]].strip()
        if left[1] > right[0] or "\n" in operator:
            operator = re.sub(r"//[^\n]*", "", operator).strip()
        start, end = left[0], right[1]
        if operator in ("&&", "||"):
            self.add(start, end, "condition", f"only what is left of {operator}", ["bool(", left, ")"])
            self.add(start, end, "condition", f"only what is right of {operator}", ["bool(", right, ")"])
        for other in SWAPS.get(operator, []):
            kind_of_edit = "comparison" if operator[0] in "<>!" or operator in ("==",) else "arithmetic"
            self.add(start, end, kind_of_edit, f"{operator} → {other}", [left, f" {other} ", right])

    def integer(self, start, end):
        match = re.fullmatch(r"(\d[\d']*)([uUlLzZ]*)", self.text[start:end])
        if not match or (match.group(1).startswith("0") and match.group(1) != "0"):
            return
        other = str(int(match.group(1).replace("'", "")) + 1) + match.group(2)
        self.add(start, end, "constant", f"→ {other}", [other])

    def extremum(self, start, end):
        match = re.match(r"std::(min|max)(?!_)", self.text[start:end])
        if match:
            other = "max" if match.group(1) == "min" else "min"
            self.add(start, end, "extremum", f"→ std::{other}", [f"std::{other}", [start + match.end(), end]])

    def branch(self, children):
        """The condition of an `if` and its bodies: what follows the child that a closing parenthesis follows."""
        for i, child in enumerate(children):
            span = list(self.range_of(child))
            if self.text[span[1]:].lstrip().startswith(")"):
                if child.kind.is_expression():
                    self.add(*span, "branch", "never taken", ["false && (", span, ")"])
                for body in children[i + 1:]:
                    self.statement(body)
                return

    def returned(self, child, result):
        start, end = self.range_of(child)
        text = self.text[start:end]
        if start in self.macros or text.startswith("{"):
            return
        of_type = result or child.type.spelling
        if "StatusOr" not in of_type and of_type.endswith("Status") and "OkStatus" not in text:
            self.add(start, end, "return", "→ absl::OkStatus()", ["absl::OkStatus()"])
        if child.type.spelling == "bool" and re.search(r"\w\)$", text) or re.search(r"\(\)$", text):
            if child.type.spelling == "bool":
                self.add(start, end, "negation", "result negated", ["!(", [start, end], ")"])

    def statement(self, child):
        """A call, an assignment or a jump that may be left out."""
        start, end = self.range_of(child)
        if start in self.macros:
            return
        inner = child
        while inner.kind == Kind.UNEXPOSED_EXPR and len(list(inner.get_children())) == 1:
            inner = next(inner.get_children())
        text = self.text[start:end]
        names = {Kind.CALL_EXPR: "call", Kind.COMPOUND_ASSIGNMENT_OPERATOR: "assignment", Kind.CONTINUE_STMT: "jump",
                 Kind.BREAK_STMT: "jump"}
        name = names.get(inner.kind)
        if inner.kind == Kind.CALL_EXPR and inner.spelling == "operator=":
            name = "assignment"
        if inner.kind == Kind.CALL_EXPR and TEXT_CALLS.match(inner.spelling or ""):
            name = None
        if inner.kind == Kind.BINARY_OPERATOR and re.search(r"[^=!<>]=[^=]", text):
            name = "assignment"
        if inner.kind == Kind.UNARY_OPERATOR and re.match(r"(\+\+|--)|.*(\+\+|--)$", text, re.S):
            name = "assignment"
        if inner.kind == Kind.CSTYLE_CAST_EXPR and text.startswith("(void)"):
            name = "call"
        if name:
            self.add(start, end, name, "dropped", [], statement=True)


def find(path, data, arguments):
    """The mutants of the source `path` with the bytes `data`, in order of place; and errors of libclang."""
    finder = Finder(path, data, arguments)
    return sorted(finder.found.values(), key=lambda m: (m.start, -m.end, m.operator, m.change)), finder.errors


def instrument(data, mutants):
    """The text with all of the mutants, chosen by their number at run time."""
    text = data.decode("latin-1")
    outer_first = sorted(mutants, key=lambda m: (m.start, -m.end, not m.statement, m.number))

    def render(start, end, inside):
        out, at, rest = [], start, [m for m in inside if start <= m.start and m.end <= end]
        while rest:
            mutant, rest = rest[0], rest[1:]
            if mutant.start < at:
                continue  # written with the mutant around it
            original = render(mutant.start, mutant.end, rest)
            other = "".join(p if isinstance(p, str) else render(p[0], p[1], rest) for p in mutant.pieces)
            out.append(text[at:mutant.start])
            if mutant.statement:
                out.append(f"if (::mutant::on({mutant.number})) {{{other}}} else {original}")
            else:
                out.append(f"(::mutant::on({mutant.number}) ? ({other}) : ({original}))")
            at = mutant.end
        return "".join(out) + text[at:end]

    return render(0, len(text), outer_first).encode("latin-1")


def innermost(mutants, line, data):
    """The mutant to blame for an error in a line: the last to begin of those that cover it."""
    text = data.decode("latin-1")
    covering = [m for m in mutants if m.line <= line <= text.count("\n", 0, m.end) + 1]
    return max(covering, key=lambda m: (m.start, -m.end, m.number)) if covering else None


def compilable(path, data, mutants, arguments, header):
    """Those of the mutants that compile together; what disturbs is dropped one by one."""
    kept, own = list(mutants), None  # own: lines that libclang refuses without any mutant
    while kept:
        text = instrument(data, kept).decode("utf-8")
        lines = error_lines(parse(path, text, arguments + ["-include", header]), path)
        if lines and own is None:
            own = error_lines(parse(path, data.decode("utf-8"), arguments), path)
        blamed = {id(m) for m in (innermost(kept, line, data) for line in lines - (own or set())) if m}
        if not blamed:
            return kept  # what else does not compile is found by the build
        kept = [m for m in kept if id(m) not in blamed]
    return kept
