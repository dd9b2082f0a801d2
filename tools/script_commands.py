"""Finds the commands that shell scripts, Python scripts and CMake files call, as far as they are written out.

A word with a variable or a slash in it is a program of the tree or of the caller, and no command here. The shell's
grammar is read as far as these scripts use it: quotes, substitutions, here-documents, tests, arithmetic and `case`.
"""
import ast
import re

BUILTINS = set(
    ". : [ [[ alias bg break builtin cd command continue declare dirs disown echo enable eval exec exit export false fg "
    "getopts hash jobs kill let local mapfile popd printf pushd pwd read readarray readonly return set shift shopt "
    "source suspend test time times trap true type typeset ulimit umask unset wait".split()
)
RESERVED = {"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "{", "}", "!", "esac", "time"}
# Commands whose last words are a command again.
WRAPPERS = {"exec", "env", "sudo", "nice", "nohup", "xargs", "timeout", "chroot", "command", "builtin"}
PLAIN = re.compile(r"[A-Za-z][\w.+-]*|\[")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")
CMAKE_COMMAND = re.compile(r"\bCOMMAND\s+([A-Za-z][\w.+-]*)(?=[\s)])|\bfind_program\s*\(\s*\w+\s+(?:NAMES\s+)?([\w.+-]+)")
STARTERS = {"run", "Popen", "call", "check_call", "check_output"}


class ShellReader:
    """Reads one script and collects (line, word) of what stands where a command is expected."""

    def __init__(self, text, first_line=1):
        self.text, self.at, self.first_line = text, 0, first_line
        self.calls, self.functions, self.asked, self.here = [], set(), set(), []

    def line(self):
        return self.first_line + self.text.count("\n", 0, self.at)

    def skip(self, pattern):
        match = re.compile(pattern, re.DOTALL).match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match

    def balanced(self, opening, closing):
        """Goes past the bracket that closes the one at `at`, and reads commands that are substituted inside."""
        depth = 0
        while self.at < len(self.text):
            if self.substitution() or self.quoted():
                continue
            depth += {opening: 1, closing: -1}.get(self.text[self.at], 0)
            self.at += 1
            if depth == 0:
                return

    def substitution(self):
        if self.skip(r"\$\(\("):
            self.at -= 1
            self.balanced("(", ")")
            self.skip(r"\)")
            return True
        if self.skip(r"[$<>]\("):
            self.commands(until=")")
            return True
        if self.text.startswith("${", self.at):
            self.at += 1
            self.balanced("{", "}")
            return True
        return False

    def quoted(self):
        if self.skip(r"'[^']*'|\\."):
            return True
        if not self.text.startswith('"', self.at):
            return False
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            if not (self.skip(r"\\.") or self.substitution()):
                self.at += 1
        self.at += 1
        return True

    def word(self):
        """Goes past one word and returns its text; commands substituted in it are collected."""
        start = self.at
        while self.at < len(self.text) and not re.match(r"[\s;&|()<>]", self.text[self.at]):
            if self.substitution() or self.quoted():
                continue
            self.at += 1
            if self.text[self.at - 1] == "=" and self.text.startswith("(", self.at):
                self.balanced("(", ")")
        return self.text[start : self.at]

    def redirection(self):
        heredoc = self.skip(r"\d*<<-?(?!<)\s*(['\"]?)(\w+)\1")
        if heredoc:
            self.here.append(heredoc.group(2))
        elif self.text.startswith(("<(", ">("), self.at):
            self.substitution()
        elif self.skip(r"\d*(<<<|[<>]&\s*[\w-]+|&?>>?\|?|<)[ \t]*"):
            if not self.text[self.at - 1].isalnum() and self.text[self.at - 1] != "-":
                self.word()
        else:
            return False
        return True

    def end_of_line(self):
        self.at += 1
        for mark in self.here:
            self.skip(rf"(?m:.*?^\t*{mark}$)")
        self.here = []

    def case_patterns(self):
        """At the start of an item of `case`: goes past its patterns; false at `esac`."""
        self.skip(r"(\s|#[^\n]*)*")
        if self.skip(r"esac\b"):
            return False
        while self.at < len(self.text) and self.text[self.at] != ")":
            if not self.quoted():
                self.at += 1
        self.at += 1
        return True

    def commands(self, until=None):
        """Reads commands up to the closing `until`, which it goes past."""
        first, words = True, []
        while self.at < len(self.text):
            if self.skip(r"[ \t]+|\\\n|#[^\n]*"):
                continue
            char = self.text[self.at]
            if char == until:
                self.at += 1
                return
            if char == "\n":
                self.end_of_line()
                first = True
            elif self.skip(r";;&?"):
                if not self.case_patterns():
                    first = True
                    continue
                first = True
            elif self.redirection():
                pass
            elif char in ";&|)":
                self.at += 1
                first = True
            elif first and self.skip(r"\(\("):
                self.at -= 2
                self.balanced("(", ")")
            elif char == "(":
                self.at += 1
                self.commands(until=")")
            else:
                line, word = self.line(), self.word()
                first = self.place(line, word, words) if first else first
                continue
            words = []

    def place(self, line, word, words):
        """Takes a word where a command is expected; true where the next one is such a place as well."""
        if word == "for" or word == "select":
            self.skip(r"[^\n;]*")
            return True
        if word == "case":
            self.skip(r"[ \t]*")
            self.word()
            self.skip(r"\s+in\b")
            self.case_patterns()
            return True
        if word == "[[":
            while self.at < len(self.text) and not self.skip(r"\]\]"):
                if not (self.substitution() or self.quoted()):
                    self.at += 1
            return False
        if self.skip(r"\(\)"):
            self.functions.add(word)
            return True
        if word in RESERVED or ASSIGNMENT.match(word):
            return True
        return self.command(line, word, words)

    def command(self, line, word, words):
        wrapped = words and words[-1] in WRAPPERS
        if word == "function" or (wrapped and re.match(r"[-\d{'\"]", word)):
            if words and words[-1] == "command" and word == "-v":
                self.asked.add(self.skip(r"\s*") and self.word())
                return False
            return True
        words.append(word)
        if PLAIN.fullmatch(word):
            self.calls.append((line, word))
        return word in WRAPPERS


def of_shell(text):
    """(line, command) of everything a script calls that is neither its own, nor built in, nor asked for by `command -v`."""
    reader = ShellReader(text)
    reader.commands()
    known = BUILTINS | RESERVED | reader.functions | reader.asked
    return [(line, word) for line, word in reader.calls if word not in known]


def of_python(text):
    """(line, command) of the programs that a script starts by their name: subprocess.run(["git", …])."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        if node.func.attr in STARTERS and getattr(node.func.value, "id", "") == "subprocess":
            first = node.args[0].elts[0] if isinstance(node.args[0], (ast.List, ast.Tuple)) and node.args[0].elts else node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                found += [(node.lineno + line - 1, word) for line, word in of_shell(first.value)]
    return found


def of_cmake(text):
    """(line, command) of what a CMake file runs or looks for."""
    return [(text.count("\n", 0, match.start()) + 1, match.group(1) or match.group(2))
            for match in CMAKE_COMMAND.finditer(text)]
