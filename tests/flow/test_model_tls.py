"""A model asked over TLS, on a little internet of our own: through the cage, by name."""
import json

import internet as net
from harness import FlowTest, main
from models import END, STREAM, ask_caged, delta

LOCAL = """
[providers.{name}]
kind = "openai"
base_url = "https://{host}/v1"
api_key = "s3cret-key"
retries = 0
[models.{name}]
provider = "{name}"
model = "m"
"""
REQUEST = {"messages": [{"role": "user", "content": "hello"}]}

internet = net.Internet(trusted=True)
seen = []  # (path, key, last message)


def answer(self):
    body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
    seen.append((self.path, self.headers["Authorization"], body["messages"][-1]["content"]))
    self.wfile.write(STREAM + delta("Hi") + END)
    self.close_connection = True


def setUpModule():
    net.Handler.do_POST = answer
    internet.enter_or_skip()


def tearDownModule():
    internet.leave()


def ask(host):
    return ask_caged(LOCAL.format(name="there", host=host), "there", REQUEST)


class Encrypted(FlowTest):
    def setUp(self):
        internet.forget()
        seen.clear()

    def test_provider_is_asked_by_its_name_through_the_cage(self):
        self.assertEqual(ask("api.kaged.test"), [["text", "Hi"], ["end", "stop"]])
        self.assertEqual(seen, [("/v1/chat/completions", "Bearer s3cret-key", "hello")])
        self.assertEqual(internet.names, ["api.kaged.test"])

    def test_certificate_for_another_name_is_refused(self):
        told = ask(net.API)
        self.assertEqual(told[-1][:2], ["error", "connection_refused"])
        self.assertEqual(seen, [])

    def test_gatekeeper_says_why_a_provider_is_out_of_reach(self):
        told = ask("loop.kaged.test")
        self.assertEqual(told[-1], ["error", "connection_lost", "provider there: it could not be "
                                    "reached: loop.kaged.test port 443: it leads to the loopback "
                                    "of this host: declare localhost"])


if __name__ == "__main__":
    main()
