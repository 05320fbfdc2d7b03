"""HACKING.md follows the tree: what its walks name is there, and where they say that it is."""
import os
import re
import unittest

from harness import ROOT, main

# In a walk a function stands in backticks, and its file behind it where it changes: `f` (`folder/file.c`).
TOLD = re.compile(r"`([a-z]\w*)`(?:,\s|\s\()`([\w./-]+\.(?:c|py|lua))`\)")
NAME = re.compile(r"`([a-z]\w*_\w*)`")
FILE = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:c|h|def|py|lua))`")
DEFINITION = re.compile(r"^(static )?(?!return\b|else\b)[A-Za-z_][\w\s*]*?\b(\w+)\(", re.M)
WORD = re.compile(r"[A-Za-z_]\w*")
# Methods of a protocol, fields, and functions of Lua, as which functions of C are called, too.
NO_FUNCTIONS = {"initialize", "next", "need", "dispatch"}
ELSEWHERE = ("sdk", "bench", "tests", "scripts", "include")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def sources(folder):
    for place, folders, names in os.walk(os.path.join(ROOT, folder)):
        folders[:] = [name for name in folders if name != "node_modules"]
        for name in names:
            if name.endswith((".c", ".h", ".def", ".lua", ".py")):
                yield os.path.join(place, name)


class Walks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.words, cls.statics, cls.publics = {}, {}, {}  # name: the files that have it, below src/
        for folder in ("src", *ELSEWHERE):
            for path in sources(folder):
                text = read(path)
                name = os.path.relpath(path, os.path.join(ROOT, "src")) if folder == "src" \
                    else os.path.relpath(path, ROOT)
                for word in set(WORD.findall(text)):
                    cls.words.setdefault(word, set()).add(name)
                if folder == "src" and path.endswith(".c"):
                    for static, function in DEFINITION.findall(text):
                        (cls.statics if static else cls.publics).setdefault(function, set()).add(name)
        sections = re.split(r"^## ", read(os.path.join(ROOT, "HACKING.md")), flags=re.M)[1:]
        cls.walks = {section.split("\n")[0]: section for section in sections if section.startswith("One ")}

    def test_a_function_is_in_the_file_that_stands_behind_it(self):
        told = [(title, *pair) for title, walk in self.walks.items() for pair in TOLD.findall(walk)]
        self.assertGreater(len(told), 60)
        for title, function, file in told:
            with self.subTest(walk=title, function=function, file=file):
                defined = self.statics.get(function, set()) | self.publics.get(function, set())
                there = defined or self.words.get(function, set())
                self.assertTrue(any(at == file or at.endswith("/" + file) for at in there),
                                f"{function} is in {sorted(there) or 'no file'}")

    def test_every_name_is_one_of_the_tree(self):
        for title, walk in self.walks.items():
            for name in NAME.findall(walk):
                with self.subTest(walk=title, name=name):
                    self.assertTrue(name in self.words, f"{name} is nowhere in the tree")

    def test_a_static_function_is_in_a_file_that_the_walk_names(self):
        for title, walk in self.walks.items():
            files = FILE.findall(walk)
            for name in re.findall(r"`([a-z]\w*)`", walk):
                if name in self.publics or name not in self.statics or name in NO_FUNCTIONS:
                    continue
                with self.subTest(walk=title, name=name):
                    self.assertTrue(any(at == file or at.endswith("/" + file) for at in self.statics[name]
                                        for file in files), f"{name} is in {sorted(self.statics[name])}")

    def test_every_file_is_there(self):
        files = {at for ats in self.words.values() for at in ats}
        for title, walk in self.walks.items():
            for name in FILE.findall(walk):
                with self.subTest(walk=title, file=name):
                    self.assertTrue(any(at == name or at.endswith("/" + name) for at in files))


if __name__ == "__main__":
    main()
