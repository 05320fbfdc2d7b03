-- Asks before the model calls a tool whose name looks as if it changed something.
-- Shows: tool_call with a verdict, kage.ui.confirm, kage.has_ui, kage.plugin_config.
--
--   [plugins.config.careful]
--   words = ["write", "run", "delete"]
local words = kage.plugin_config().words or { "write", "edit", "run", "exec", "delete", "remove" }

local function looks_dangerous(name)
  for _, word in ipairs(words) do
    if string.find(string.lower(name), word, 1, true) then
      return true
    end
  end
  return false
end

kage.on("tool_call", function(call)
  if not looks_dangerous(call.name) then
    return nil
  end
  if kage.has_ui() and kage.ui.confirm("Let the model call " .. call.name, kage.json.encode(call.input)) then
    return nil
  end
  return { block = "nobody allowed it" }
end)
