"""The manual as a site: made of the same pages, whole without a network, and searchable."""
import html.parser
import json
import os
import subprocess
import tempfile
import unittest

from browser import Browser, skip_reason
from harness import ROOT, main

PAGES = os.path.join(os.environ["KAGED_BUILD"], "docs")


class Links(html.parser.HTMLParser):
    """What a page links to, loads, and can be linked to."""

    def __init__(self):
        super().__init__()
        self.links, self.loads, self.ids = [], [], set()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.add(attributes.get("id"))
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        elif "href" in attributes or "src" in attributes:
            self.loads.append(attributes.get("href") or attributes["src"])


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = os.path.join(folder.name, "site")
        subprocess.run([os.path.join(ROOT, "scripts/docs"), PAGES, cls.folder], check=True, stdout=subprocess.DEVNULL)
        cls.pages = {}
        for name in os.listdir(cls.folder):
            if name.endswith(".html"):
                cls.pages[name] = Links()
                with open(os.path.join(cls.folder, name), encoding="utf-8") as file:
                    cls.pages[name].feed(file.read())

    def test_every_manual_page_is_a_page_of_it(self):
        written = {name for name in os.listdir(PAGES) if name[-1].isdigit()}
        self.assertGreater(len(written), 15)
        self.assertEqual(written - {name.removesuffix(".html") for name in self.pages}, set())

    def test_every_link_leads_somewhere(self):
        for name, page in self.pages.items():
            for link in page.links:
                target, _, anchor = link.partition("#")
                with self.subTest(page=name, link=link):
                    if target.startswith("https:"):
                        continue
                    self.assertIn(target or name, self.pages)
                    if anchor:
                        self.assertIn(anchor, self.pages[target or name].ids)

    def test_it_loads_nothing_but_its_own_files(self):
        for name, page in self.pages.items():
            for path in page.loads:
                self.assertTrue(os.path.isfile(os.path.join(self.folder, path)), f"{name} loads {path}")

    def test_what_search_finds_is_there(self):
        with open(os.path.join(self.folder, "sections.js"), encoding="utf-8") as file:
            sections = json.loads(file.read().removeprefix("const SECTIONS = ").rstrip(";\n"))
        self.assertGreater(len(sections), 100)
        for page, _, anchor, title, _ in sections:
            self.assertIn(anchor, self.pages[page + ".html"].ids, (page, title))

    @unittest.skipIf(skip_reason(), skip_reason())
    def test_a_reader_finds_a_section_by_words(self):
        with Browser() as browser:
            browser.open(f"file://{self.folder}/index.html")
            browser.press("/")
            browser.fill("#search", "gatekeeper hosts")
            browser.click("#found a")
            browser.wait("main section")
            self.assertRegex(browser.evaluate("location.href"), r"/kaged-[a-z]+\.\d\.html#")
            browser.open(f"file://{self.folder}/index.html?q=xyzzy")
            self.assertEqual(browser.texts("#found li"), ["Nothing has all of these words."])


if __name__ == "__main__":
    main()
