"""Repositories over https, on a little internet of our own; see internet.py."""
import os
import shutil
import unittest

import archives
import internet as net
from harness import main
from test_fetch import ORDINARY, Fetcher, FetchTest, tree_hash

HOST, PORT = "api.kaged.test", 443

internet = net.Internet(trusted=True)


def setUpModule():
    if shutil.which("git") is None and os.environ.get("CI") != "true":
        raise unittest.SkipTest("git is not installed")
    internet.enter_or_skip()
    work = archives.make_repository(os.path.join(internet.folder, "work"), tags=["v1.0.0"])
    archives.git(work, "clone", "--quiet", "--bare", ".", os.path.join(internet.files, "repo.git"))


def tearDownModule():
    internet.leave()


class Https(FetchTest):
    def fetch(self, url, user=None, **more):
        internet.forget()
        with Fetcher(self.base, user=user) as fetcher:
            return fetcher.fetch(url, **more)

    def expected(self, version):
        folder = archives.make_folder(self.path("expected"), {**archives.HONEST,
                                                              "version": version})
        return tree_hash(folder)

    def test_default_branch_is_fetched(self):
        answer = self.fetch(f"https://{HOST}/git/repo.git")
        self.assertEqual(answer.get("hash"), self.expected(b"newest"), answer)
        self.assertEqual({tuple(event[1:]) for event in answer["network"]}, {(HOST, PORT)})
        self.assertEqual(set(internet.accepted), {(net.API, PORT)})

    def test_version_is_fetched_from_another_port(self):
        answer = self.fetch(f"git+https://{HOST}:8443/git/repo.git", version="1.0.0")
        self.assertEqual(answer.get("hash"), self.expected(b"v1.0.0"), answer)
        self.assertEqual(set(internet.accepted), {(net.API, 8443)})

    def test_it_works_for_an_ordinary_user(self):
        answer = self.fetch(f"https://{HOST}/git/repo.git", user=ORDINARY)
        self.assertEqual(answer.get("hash"), self.expected(b"newest"), answer)

    def test_redirection_is_followed_on_the_same_host_only(self):
        answer = self.fetch(f"https://{HOST}/moved/{HOST}/git/repo.git")
        self.assertEqual(answer.get("hash"), self.expected(b"newest"), answer)
        for other in ("other.kaged.test", "127.0.0.1", net.OTHER, f"{HOST}:8443", net.METADATA):
            answer = self.fetch(f"https://{HOST}/moved/{other}/git/repo.git")
            self.assert_failed(answer, "invalid_source", "unable to access")
            self.assertEqual(set(internet.accepted), {(net.API, PORT)}, other)

    def test_host_without_a_certificate_for_its_name_is_refused(self):
        answer = self.fetch(f"https://{net.API}/git/repo.git")
        self.assert_failed(answer, "invalid_source", "certificate")

    def test_repository_that_is_not_there_is_told_so(self):
        answer = self.fetch(f"https://{HOST}/git/none.git")
        self.assert_failed(answer, "invalid_source", "not found")
        self.assertIn("look at the URL", answer["hint"])
        self.assert_failed(self.fetch(f"https://{HOST}/no-git"), "invalid_source", "git fetch:")

    def test_silent_server_ends_at_the_deadline(self):
        with Fetcher(self.base, timeout_ms=3000) as fetcher:
            answer = fetcher.fetch(f"https://{HOST}/silence/x.git")
        self.assert_failed(answer, "too_large", "it was not done after 3 s")


if __name__ == "__main__":
    main()
