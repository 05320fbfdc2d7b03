-- /remind MINUTES TEXT: tells it after that time, while the session is open.
-- Shows: kage.defer, kage.notify, arguments of commands.
kage.register_command{
  name = "remind", description = "Tells you something later.",
  args = { { name = "minutes", kind = "path" }, { name = "text", kind = "text" } },
  handler = function(_, _, parsed)
    local minutes = tonumber(parsed.minutes)
    if not minutes or minutes < 0 then
      return { text = "remind: how many minutes?", is_error = true }
    end
    kage.defer(function() kage.notify(parsed.text) end, minutes * 60000)
    return string.format("in %g minutes", minutes)
  end,
}
