-- Tells at the end of each run how many tokens the model wrote, and how fast.
-- Shows: kage.on, kage.now_ms, kage.notify.
local began, tokens = 0, 0

kage.on("agent_start", function()
  began, tokens = kage.now_ms(), 0
end)

kage.on("message_end", function(message)
  tokens = tokens + message.usage.output
end)

kage.on("agent_end", function()
  local seconds = math.max(kage.now_ms() - began, 1) / 1000
  kage.notify(string.format("%d tokens, %.1f a second", tokens, tokens / seconds))
end)
