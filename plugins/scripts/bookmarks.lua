-- /mark WORD puts a word on what was said last; /note TEXT keeps a note in the session that no model sees; /try makes a
-- session of its own that goes on from here, and /sessions lists those of the project.
-- Shows: kage.session.entries, set_label, append_entry, fork, list. /mark takes [plugins.capabilities]
-- bookmarks = ["session_write"] in config.toml.
local caps = kage.request_capabilities({ "session_write" })

if caps.session_write then
  kage.register_command{
    name = "mark", description = "Puts a word on what was said last; without one takes it away.",
    args = { { name = "word", kind = "text", optional = true } },
    handler = function(_, _, parsed)
      local entries = kage.session.entries()
      for i = #entries, 1, -1 do
        if entries[i].kind == "message" then
          kage.session.set_label(entries[i].id, parsed.word)
          return (parsed.word or "nothing") .. " is on " .. entries[i].id
        end
      end
      return "nothing was said yet"
    end,
  }
end

kage.register_command{
  name = "note", description = "Keeps a note in the session, for people alone.",
  args = { { name = "text", kind = "text" } },
  handler = function(_, _, parsed)
    kage.session.append_entry("bookmarks:note", { text = parsed.text, at = kage.now_ms() })
  end,
}

kage.register_command{
  name = "try", description = "Makes a session that goes on from here; this one stays.",
  handler = function()
    kage.session.fork()
    return "a session is made of this one; /sessions has it"
  end,
}

kage.register_command{
  name = "sessions", description = "The sessions of this project.",
  handler = function()
    local lines = {}
    for i, session in ipairs(kage.session.list()) do
      lines[i] = session.value
    end
    return table.concat(lines, "\n")
  end,
}
