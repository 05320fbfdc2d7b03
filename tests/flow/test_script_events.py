"""Scripts change what a model is asked with, one after the other."""
from harness import FlowTest, main, wait_for
from test_scripts import Scripted
from test_turns import calls, says, text_of

MASKS = """
kage.on("transform_context", function(messages)
  for _, message in ipairs(messages) do
    for _, block in ipairs(message.content) do
      if message.role == "user" and block.type == "text" then block.text = block.text:gsub("%s", "%s") end
    end
  end
  return messages
end)
"""


def grants(*names):
    return {f"plugins.capabilities.{name}": ["context"] for name in names}


def asked(shop, index=0):
    return shop.provider.requests[index][1]["messages"]


class Transforms(FlowTest):
    def test_a_chain_of_two_scripts_changes_what_the_model_sees_and_not_what_is_kept(self):
        scripts = {"a": MASKS % ("secret", "hidden"), "b": MASKS % ("hidden", "gone")}
        with Scripted(scripts, says("ok"), config=grants("a", "b")) as shop:
            self.assertEqual(text_of(shop.run("my secret")), "ok")
            self.assertEqual(asked(shop)[-1]["content"], "my gone")
            kept = shop.daemon.api("GET", f"/sessions/{shop.session}/context")[1]
            self.assertIn("my secret", str(kept))

    def test_without_the_grant_nothing_is_told(self):
        with Scripted({"a": MASKS % ("secret", "hidden")}, says("ok")) as shop:
            shop.run("my secret")
            self.assertEqual(asked(shop)[-1]["content"], "my secret")

    def test_the_system_prompt_is_changed(self):
        adds = "kage.on('before_provider_request', function(req) req.system = (req.system or '') .. ' Today.' " \
               "return req end)"
        with Scripted({"a": adds}, says("ok"), config=grants("a")) as shop:
            shop.run("hi")
            self.assertTrue(asked(shop)[0]["content"].endswith(" Today."))
            self.assertEqual(asked(shop)[0]["role"], "system")

    def test_what_cannot_be_used_is_left_out_and_the_last_good_value_stands(self):
        bad = ("'text'", "{}", "{{role='user'}}", "{{role='robot', content={}}}", "{{role='user', content='x'}}",
               "{{role='tool_result', content={{type='tool_result_block', call_id='x', output=''}}}}",
               "{{role='assistant', content={{type='tool_call', id='a', name='b', input={}}}}}",
               "setmetatable({}, {__index = function() error('lies') end})", "function() end", "error('raised')")
        for value in bad:
            scripts = {"a": MASKS % ("secret", "hidden"),
                       "b": f"kage.on('transform_context', function() return {value} end)"}
            with self.subTest(value), Scripted(scripts, says("ok"), config=grants("a", "b")) as shop:
                self.assertEqual(text_of(shop.run("my secret")), "ok")
                self.assertEqual(asked(shop)[-1]["content"], "my hidden")
                wait_for(lambda: "b@" in shop.daemon.log() or "plugin b" in shop.daemon.log(), "words in the log")

    def test_calls_and_results_survive_the_way_there_and_back(self):
        same = "kage.on('transform_context', function(messages) return messages end)"
        answers = calls({"acts": {"result": {"price": 3}}}), says("It costs 3.")
        with Scripted({"a": same}, *answers, config=grants("a")) as shop:
            shop.run("price")
            through = asked(shop, 1)
        with Scripted({}, *(calls({"acts": {"result": {"price": 3}}}), says("It costs 3."))) as shop:
            shop.run("price")
            plain = asked(shop, 1)
        for message in through + plain:
            message.pop("tool_call_id", None)
            for call in message.get("tool_calls", []):
                call.pop("id")
        self.assertEqual(through, plain)

    def test_before_agent_start_tells_the_prompt_and_what_was_said(self):
        hears = "kage.on('before_agent_start', function(data) kage.store.set('x', data) end) " \
                "kage.register_command{name='x', description='', handler=function() " \
                "return kage.store.get('x').first_user_message end}"
        with Scripted({"a": hears}, says("ok"), config=grants("a")) as shop:
            shop.run("my words")
            self.assertEqual(shop.text("x"), "my words")

    def test_an_event_that_is_never_told_here_is_a_warning(self):
        with Scripted({"a": "kage.on('color_scheme', function() end) kage.on('nonsense', function() end)"}) as shop:
            shop.daemon.api("GET", f"/sessions/{shop.session}/commands")
            wait_for(lambda: "color_scheme is never told" in shop.daemon.log(), "the warning")
            wait_for(lambda: "there is no event nonsense" in shop.daemon.log(), "the other")


if __name__ == "__main__":
    main()
