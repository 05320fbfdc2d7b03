"""Packages in a bucket of S3: put before they are published, held against their hash when they come back, kept in
a cache with a bound; and what is said when the bucket is away, refuses, lies or hangs."""
import hashlib
import http.client
import json
import os
import random
import shutil
import time
import unittest

import rgw
import s3
from harness import PATIENCE, Daemon, main, wait_for
from test_catalog import FREE_PORT, World
from test_catalog_packages import BOUNDARY, form, package

PREFIX = "packages/kaged/one/"


def noise(bytes_count, seed=1):
    return random.Random(seed).randbytes(bytes_count)


class Bucket:
    """A daemon whose packages are in a bucket, with an org to upload to."""

    def __init__(self, server=None, secret=s3.SECRET, **config):
        self.server = server or s3.S3()
        self.daemon = Daemon([], {**FREE_PORT, **s3.config(self.server, **config)})
        self.daemon.write_local(s3.local())
        code, _, words = self.daemon.cli("secret", "set", "bucket", input=secret)
        assert code == 0, words

    def __enter__(self):
        self.daemon.__enter__()
        self.world = World(self.daemon)
        return self

    def __exit__(self, *error):
        self.daemon.__exit__(*error)
        self.server.__exit__()

    def upload(self, content):
        """(status, headers, answer)"""
        client = self.world.clients["acme-admin"]
        connection = http.client.HTTPConnection(client.address, timeout=PATIENCE * 2)
        try:
            connection.request("POST", "/api/orgs/acme/plugins/upload", form(content),
                               {**client.headers, "Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})
            answer = connection.getresponse()
            return answer.status, answer.headers, json.loads(answer.read())
        finally:
            connection.close()

    def take(self, content):
        status, _, answer = self.upload(content)
        assert status == 201, answer
        return answer["id"]

    def download(self, package_id):
        return self.daemon.raw("GET", f"/api/orgs/acme/plugins/{package_id}/download", timeout=PATIENCE * 2)

    def refused(self, package_id):
        status, body = self.download(package_id)
        return status, json.loads(body)

    def versions(self):
        return self.world.clients["acme-admin"].ask("GET", "/api/orgs/acme/plugins")[1]["plugins"]

    def folder(self, name):
        return os.path.join(self.daemon.home, "state/catalog", name)

    def cached(self):
        return sorted(name for _, _, names in os.walk(self.folder("cache")) for name in names)

    def forget(self):
        for base, _, names in os.walk(self.folder("cache")):
            for name in names:
                os.unlink(os.path.join(base, name))

    def left_over(self):
        return [name for folder in ("incoming", "staging") if os.path.isdir(self.folder(folder))
                for name in os.listdir(self.folder(folder))]


class Packages(unittest.TestCase):
    def test_a_package_goes_to_the_bucket_and_comes_back_as_it_was(self):
        with Bucket() as bucket:
            content = package("example.acme.one", shout2=noise(300_000))
            made = bucket.take(content)
            key = PREFIX + hashlib.sha256(content).hexdigest()
            self.assertEqual(bucket.server.objects, {key: content})
            self.assertEqual(bucket.download(made), (200, content))
            self.assertEqual(bucket.server.methods(), ["PUT"])  # it is in the cache
            bucket.forget()
            self.assertEqual(bucket.download(made), (200, content))
            self.assertEqual(bucket.server.methods(), ["PUT", "GET"])
            self.assertEqual(bucket.cached(), [key[len(PREFIX):]])
            self.assertEqual((bucket.daemon.figure("kaged_objects_hits_total"), bucket.daemon.figure("kaged_objects_misses_total")), (1, 1))
            self.assertEqual(bucket.daemon.figure("kaged_objects_received_bytes_total"), len(content))
            self.assertEqual(bucket.daemon.figure("kaged_objects_sent_bytes_total"), len(content))
            self.assertEqual(bucket.left_over(), [])

    def test_a_row_is_published_only_after_its_object_is_there(self):
        with Bucket() as bucket:
            seen = []
            bucket.server.fault = lambda handler, body: seen.append(bucket.versions()) if handler.command == "PUT" else None
            bucket.take(package("example.acme.order"))
            self.assertEqual(seen, [[]])

    def test_what_can_have_no_row_is_not_even_put(self):
        with Bucket() as bucket:
            bucket.take(package("example.acme.twice", version="2.0.0"))
            status, _, answer = bucket.upload(package("example.acme.twice", version="1.0.0"))
            self.assertEqual(status, 409, answer)
            self.assertEqual(bucket.server.methods(), ["PUT"])

    def test_a_daemon_after_another_one_has_what_was_there_before_the_bucket(self):
        with Bucket() as bucket:
            bucket.daemon.stop()
            bucket.daemon.write_config(cluster__bucket="")
            bucket.daemon.start()
            content = package("example.acme.before")
            self.world_again(bucket)
            made = bucket.take(content)
            self.assertEqual(bucket.server.objects, {})
            bucket.daemon.stop()
            bucket.daemon.write_config(cluster__bucket="s3://packages/kaged/one")
            bucket.daemon.start()
            self.assertEqual(bucket.download(made), (200, content))
            self.assertEqual(bucket.server.methods(), [])

    def world_again(self, bucket):
        """Tokens stay, the port is another one."""
        for client in bucket.world.clients.values():
            client.address = bucket.daemon.api("GET", "/status")[1]["tcp"]

    def test_a_cache_past_its_bound_forgets_what_was_used_least_recently(self):
        with Bucket(**{"cluster.cache_mb": 1}) as bucket:
            made = [bucket.take(package(f"example.acme.big{i}", shout2=noise(400_000, i))) for i in range(2)]
            bucket.download(made[0])  # the other one is older now
            bucket.take(package("example.acme.big2", shout2=noise(400_000, 2)))
            self.assertEqual(len(bucket.cached()), 2)
            puts = len(bucket.server.requests)
            self.assertEqual(bucket.download(made[0])[0], 200)
            self.assertEqual(len(bucket.server.requests), puts)
            self.assertEqual(bucket.download(made[1])[0], 200)
            self.assertEqual(bucket.server.methods()[puts:], ["GET"])
            self.assertLessEqual(bucket.daemon.figure("kaged_objects_cache_bytes"), 1 << 20)

    def test_what_is_damaged_in_the_cache_is_fetched_again(self):
        with Bucket() as bucket:
            content = package("example.acme.rot")
            made = bucket.take(content)
            name = hashlib.sha256(content).hexdigest()
            with open(os.path.join(bucket.folder("cache"), name[:2], name), "ab") as file:
                file.write(b"more")
            self.assertEqual(bucket.download(made), (200, content))
            self.assertEqual(bucket.server.methods(), ["PUT", "GET"])


class Trees(unittest.TestCase):
    """What is unpacked of a package can be made again of its object."""

    def enable(self, bucket, made):
        client = bucket.world.clients["acme-admin"]
        return client.ask("PATCH", f"/api/orgs/acme/plugins/{made}", {"enabled": True})

    def files(self, bucket):
        return sorted(os.path.relpath(os.path.join(base, name), bucket.folder("trees"))
                      for base, _, names in os.walk(bucket.folder("trees")) for name in names)

    def test_files_that_are_gone_are_unpacked_again_when_a_version_is_enabled(self):
        with Bucket() as bucket:
            made = bucket.take(package("example.acme.tree", shout2="more"))
            before = self.files(bucket)
            self.assertEqual(len(before), 3)
            shutil.rmtree(bucket.folder("trees"))
            bucket.forget()
            status, answer = self.enable(bucket, made)
            self.assertEqual(status, 200, answer)
            self.assertEqual((self.files(bucket), bucket.left_over()), (before, []))
            self.assertEqual(bucket.server.methods(), ["PUT", "GET"])

    def test_without_the_bucket_it_says_so_and_nothing_is_half_there(self):
        with Bucket() as bucket:
            made = bucket.take(package("example.acme.tree"))
            shutil.rmtree(bucket.folder("trees"))
            bucket.forget()
            bucket.server.fault = lambda handler, _: handler.answer(503) or True
            status, answer = self.enable(bucket, made)
            self.assertEqual((status, answer["details"]["error"]), (503, "objects_unavailable"))
            self.assertEqual((self.files(bucket), bucket.left_over()), ([], []))


@unittest.skipUnless(os.environ.get("KAGED_TEST_LONG") == "1", "make test-long has a server that others wrote")
class Ceph(unittest.TestCase):
    """The same against Ceph's radosgw."""

    def daemon(self, server, secret):
        bucket = Bucket(server, secret)
        bucket.daemon.write_local(s3.local(server.access))
        return bucket

    def make_bucket(self, server):
        """kaged makes none."""
        host = f"127.0.0.1:{server.port}"
        connection = http.client.HTTPConnection(host, timeout=PATIENCE)
        connection.request("PUT", "/packages", headers=s3.signed("PUT", host, "/packages", server.access, server.secret))
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()

    def test_a_package_goes_there_and_comes_back_and_a_wrong_key_is_refused(self):
        with rgw.Rgw() as server:
            self.make_bucket(server)
            with self.daemon(server, server.secret) as bucket:
                content = package("example.acme.ceph", shout2=noise(3_000_000))
                made = bucket.take(content)
                bucket.forget()
                self.assertEqual(bucket.download(made), (200, content))
                _, said, _ = bucket.daemon.cli("doctor", timeout=PATIENCE * 2)
                self.assertIn("an object was put, read and removed", said)
                bucket.daemon.cli("secret", "set", "bucket", input="another-secret-than-that")
                bucket.forget()
                status, answer = bucket.refused(made)
                self.assertEqual(status, 503, answer)
                self.assertIn("SignatureDoesNotMatch", answer["message"])


class Faults(unittest.TestCase):
    """Each ends in a clear answer, and nothing is half stored."""

    def assert_unavailable(self, bucket, words, content=None):
        status, headers, answer = bucket.upload(content or package("example.acme.fault"))
        self.assertEqual((status, answer["details"]["error"]), (503, "objects_unavailable"), answer)
        self.assertTrue(headers["Retry-After"])
        self.assertIn(words, answer["message"] + answer["details"].get("hint", ""))
        self.assertEqual((bucket.versions(), bucket.left_over(), bucket.cached()), ([], [], []))
        self.assertGreater(bucket.daemon.figure("kaged_objects_errors_total"), 0)
        return answer

    def assert_taken_then(self, bucket):
        bucket.server.fault = None
        bucket.take(package("example.acme.fault"))

    def test_away_and_back(self):
        with Bucket() as bucket:
            port = bucket.server.port
            bucket.server.__exit__()
            self.assert_unavailable(bucket, "cannot be reached")
            bucket.server = s3.S3(port)
            self.assert_taken_then(bucket)

    def test_a_wrong_secret(self):
        with Bucket(secret="not-the-secret-of-this-key") as bucket:
            answer = self.assert_unavailable(bucket, "SignatureDoesNotMatch")
            self.assertIn("403", answer["message"])
            self.assertEqual(bucket.server.objects, {})
            self.assertNotIn("not-the-secret", bucket.daemon.log())

    def test_no_keys_at_all(self):
        with Bucket() as bucket:
            bucket.daemon.write_local("")
            bucket.daemon.cli("reload")
            self.assert_unavailable(bucket, "no keys")

    def test_a_secret_that_is_not_there(self):
        with Bucket() as bucket:
            bucket.daemon.write_local(s3.local(secret="${secret:other}"))
            bucket.daemon.cli("reload")
            self.assert_unavailable(bucket, "other")

    def test_an_object_that_is_missing(self):
        with Bucket() as bucket:
            made = bucket.take(package("example.acme.gone"))
            bucket.server.objects.clear()
            bucket.forget()
            status, answer = bucket.refused(made)
            self.assertEqual(status, 500, answer)
            self.assertIn("is not in the bucket", answer["message"])
            self.assertEqual(bucket.left_over(), [])

    def test_an_object_that_was_changed(self):
        with Bucket() as bucket:
            content = package("example.acme.changed")
            made = bucket.take(content)
            bucket.forget()
            bucket.server.objects = {key: value[:-1] + b"x" for key, value in bucket.server.objects.items()}
            status, answer = bucket.refused(made)
            self.assertEqual(status, 500, answer)
            self.assertIn("damaged", answer["message"])
            self.assertEqual((bucket.left_over(), bucket.cached()), ([], []))
            bucket.server.objects = {PREFIX + hashlib.sha256(content).hexdigest(): content}
            self.assertEqual(bucket.download(made), (200, content))

    def test_an_answer_of_ten_gigabytes(self):
        def endless(handler, body):
            if handler.command != "GET":
                return False
            handler.send_response(200)
            handler.send_header("Content-Length", str(10 << 30))
            handler.end_headers()
            try:
                while True:
                    handler.wfile.write(bytes(1 << 16))
            except OSError:
                handler.close_connection = True
            return True
        with Bucket() as bucket:
            made = bucket.take(package("example.acme.endless"))
            bucket.forget()
            bucket.server.fault = endless
            status, answer = bucket.refused(made)
            self.assertEqual(status, 503, answer)
            self.assertIn("more bytes than the object has", answer["message"])
            self.assertEqual((bucket.left_over(), bucket.cached()), ([], []))

    def test_an_answer_that_is_cut(self):
        def cut(handler, body):
            handler.answer(200, b"half", 1000)
            handler.close_connection = True
            return True
        with Bucket() as bucket:
            made = bucket.take(package("example.acme.cut"))
            bucket.forget()
            bucket.server.fault = cut
            status, answer = bucket.refused(made)
            self.assertEqual(status, 503, answer)
            self.assertEqual(len(bucket.server.requests), 4)  # the put, and three attempts
            bucket.server.fault = None
            self.assertEqual(bucket.download(made)[0], 200)

    def test_xml_that_is_none(self):
        bodies = [b"", b"<Code>" * 2000, b"<Code>\xff\xfe<script></Code>", b"{}", b"<Code>" + b"A" * 100_000 + b"</Code>",
                  b"\0" * 300_000]
        with Bucket() as bucket:
            for body in bodies:
                with self.subTest(body[:20]):
                    bucket.server.fault = lambda handler, _: handler.answer(400, body) or True
                    answer = self.assert_unavailable(bucket, "status 400")
                    self.assertLess(len(answer["message"]), 400)
            self.assert_taken_then(bucket)

    def test_what_does_not_speak_http(self):
        with Bucket() as bucket:
            bucket.server.fault = lambda handler, _: handler.wfile.write(b"SSH-2.0-what\r\n") and not handler.finish()
            self.assert_unavailable(bucket, "cannot be reached")

    def test_a_redirect_is_not_followed(self):
        def redirect(handler, body):
            handler.send_response(307)
            handler.send_header("Location", "http://127.0.0.1:1/")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return True
        with Bucket() as bucket:
            bucket.server.fault = redirect
            self.assert_unavailable(bucket, "cluster.region")

    def test_a_server_that_is_busy_is_asked_again(self):
        with Bucket() as bucket:
            answers = iter([503, 500])
            bucket.server.fault = lambda handler, _: (lambda s: s and (handler.answer(s) or True))(next(answers, 0))
            bucket.take(package("example.acme.busy"))
            self.assertEqual(bucket.server.methods(), ["PUT", "PUT", "PUT"])

    def test_a_slow_answer_is_given_up_and_others_do_not_wait_for_it(self):
        def slow(handler, body):
            if handler.command != "GET":
                return False
            handler.send_response(200)
            handler.send_header("Content-Length", "1000000")
            handler.end_headers()
            try:
                while True:
                    handler.wfile.write(b"x")
                    time.sleep(0.2)
            except OSError:
                handler.close_connection = True
            return True
        with Bucket() as bucket:
            made = bucket.take(package("example.acme.slow"))
            bucket.forget()
            bucket.server.fault = slow
            connection = http.client.HTTPConnection(bucket.world.clients["acme-admin"].address)
            connection.request("GET", f"/api/orgs/acme/plugins/{made}/download",
                               headers=bucket.world.clients["acme-admin"].headers)
            wait_for(lambda: "GET" in bucket.server.methods(), "the request at the bucket")
            self.assertEqual(len(bucket.versions()), 1)  # the daemon answers others
            connection.close()
            bucket.daemon.stop()  # and stops, whatever the bucket does
            bucket.daemon.start()
            self.assertEqual(bucket.left_over(), [])


class Doctor(unittest.TestCase):
    def doctor(self, bucket):
        code, said, _ = bucket.daemon.cli("doctor", timeout=PATIENCE * 2)
        return said[said.index("bucket  "):]

    def test_all_is_well(self):
        with Bucket() as bucket:
            self.assertIn("an object was put, read and removed", self.doctor(bucket))
            self.assertEqual(bucket.server.methods(), ["PUT", "GET", "DELETE"])
            self.assertEqual(bucket.server.objects, {})

    def test_it_is_away(self):
        with Bucket() as bucket:
            bucket.server.__exit__()
            self.assertIn("cannot be reached", self.doctor(bucket))

    def test_rights_that_are_lacking(self):
        with Bucket() as bucket:
            for method in ("PUT", "GET"):
                bucket.server.refused = {method}
                said = self.doctor(bucket)
                self.assertIn("403 AccessDenied", said)
                self.assertIn("services.bucket", said)

    def test_a_clock_that_is_off(self):
        with Bucket() as bucket:
            bucket.server.clock_sec = 300
            self.assertIn("its clock is ahead", self.doctor(bucket))
            bucket.server.clock_sec = 3600
            self.assertIn("RequestTimeTooSkewed", self.doctor(bucket))


class Server(unittest.TestCase):
    """The server of these tests can say no."""

    def test_it_refuses_what_is_not_signed_or_not_what_was_signed(self):
        with s3.S3() as server:
            def ask(headers, body=b"x"):
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
                connection.request("PUT", "/packages/a", body, headers)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            self.assertEqual(ask({})[0], 403)
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            wrong = {"x-amz-date": stamp, "x-amz-content-sha256": hashlib.sha256(b"x").hexdigest(),
                     "Authorization": f"AWS4-HMAC-SHA256 Credential={s3.ACCESS}/{stamp[:8]}/{s3.REGION}/s3/aws4_request, "
                                      "SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=" + "0" * 64}
            self.assertIn("SignatureDoesNotMatch", ask(wrong)[1])
            self.assertEqual(server.objects, {})


class Settings(unittest.TestCase):
    def test_a_bucket_that_cannot_be_one_is_refused(self):
        for key, value in (("bucket", "packages"), ("bucket", "s3://"), ("bucket", "s3://UPPER/x"), ("bucket", "s3://a/b"),
                           ("bucket", "s3://abc/../x"), ("bucket", "s3://abc/a b"), ("endpoint", "host:9000"),
                           ("region", "EU West"), ("style", "dns")):
            with self.subTest(key + "=" + value):
                daemon = Daemon(config={f"cluster.{key}": value})
                try:
                    code, _, words = daemon.cli("start", "--foreground")
                    self.assertNotEqual(code, 0)
                    self.assertIn(f"cluster.{key}", words)
                finally:
                    daemon.discard()


if __name__ == "__main__":
    main()
