-- Keeps an eye on the context: says how full it is, compacts it with a wish for the summary, and has the model look at its
-- work again. /usage, /tidy [WISH], /check.
-- Shows: kage.context_usage, kage.compact, kage.send_message, and the events model_select and
-- compact_prepare. Takes [plugins.capabilities] steward = ["session_write", "context"] in config.toml for the last two.
local caps = kage.request_capabilities({ "session_write", "context" })

kage.register_command{
  name = "usage", description = "How full the context is.",
  handler = function()
    local usage = kage.context_usage()
    if usage == nil then
      return "nothing was asked yet"
    end
    local share = usage.context_window > 0 and usage.current_context * 100 // usage.context_window or 0
    return string.format("%s: %d tokens, %d%% of what it takes", usage.model, usage.current_context, share)
  end,
}

kage.register_command{
  name = "tidy", description = "Compacts the context.",
  args = { { name = "wish", kind = "text", optional = true } },
  handler = function(_, _, parsed)
    kage.compact(parsed.wish)
  end,
}

kage.on("model_select", function(change)
  kage.notify("the model is " .. change.next .. " now, and was " .. change.prev)
end)

if caps.context then
  kage.on("compact_prepare", function(plan)
    plan.prompt = (plan.prompt or "") .. "\nKeep the names of files."
    return plan
  end)
end

if caps.session_write then
  kage.register_command{
    name = "check", description = "Has the model look at its work again.",
    handler = function()
      kage.send_message("Look at what you did again: is anything missing?")
    end,
  }
end
