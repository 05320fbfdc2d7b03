"""Run with python3 -m unittest, in the plugin's folder: a host in memory, no daemon."""
import unittest

from kaged_sdk import PluginError
from kaged_sdk.testing import Host
from plugin import plugin


class Greeting(unittest.TestCase):
    def test_greets_with_the_word_of_its_config(self):
        with Host(plugin, config={"word": "Welcome"}) as host:
            self.assertEqual(host.tool("greet", {"name": "Ada"}), {"text": "Welcome, Ada!"})

    def test_refuses_to_greet_nobody(self):
        with Host(plugin) as host, self.assertRaisesRegex(PluginError, "name must be a string"):
            host.call("greeting.say", {})

    def test_tells_a_session_of_its_tool(self):
        with Host(plugin) as host:
            self.assertIn("my-plugin.greet", host.hook("on_session_start")["inject"])
