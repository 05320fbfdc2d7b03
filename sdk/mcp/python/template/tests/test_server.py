"""Run with python3 -m unittest, in the server's folder: no daemon, no client."""
import io
import json
import unittest

from server import server


def said(*messages):
    """What the server answers, by id."""
    out = io.StringIO()
    server.run([json.dumps({"jsonrpc": "2.0", **message}) for message in messages], out)
    return {answer["id"]: answer for answer in map(json.loads, out.getvalue().splitlines())}


class Greeting(unittest.TestCase):
    def test_greets_by_name(self):
        result = server.call("greet", {"name": "Ada"})
        self.assertEqual(result["content"][0]["text"], "Hello, Ada!")

    def test_greets_several(self):
        result = server.call("greet_all", {"names": ["Ada", "Bo"]})
        self.assertEqual(result["content"][0]["text"], "Hello, Ada!\nHello, Bo!")

    def test_refuses_to_greet_nobody(self):
        result = server.call("greet", {})
        self.assertTrue(result["isError"])
        self.assertEqual(result["content"][0]["text"], "name is missing")


class Wire(unittest.TestCase):
    def test_lists_its_tools_to_a_client(self):
        answers = said({"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
                       {"method": "notifications/initialized"}, {"id": 2, "method": "tools/list"})
        self.assertEqual(answers[1]["result"]["serverInfo"]["name"], "my-plugin")
        self.assertEqual([tool["name"] for tool in answers[2]["result"]["tools"]],
                         ["greet", "greet_all"])

    def test_does_not_know_every_method(self):
        self.assertEqual(said({"id": 1, "method": "no/such"})[1]["error"]["code"], -32601)
